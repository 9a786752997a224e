/* Sets of small numbers (tensors, groups), as ascending lists. They are never changed, and so shared: most are that of
 * an operand, or have one element. */
#include "fuse/fuse.h"

bool set_has(Set s, int v) {
  int low = 0, high = s.n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (s.at[middle] < v) low = middle + 1;
    else high = middle;
  }
  return low < s.n && s.at[low] == v;
}

int set_union_count(Set a, Set b) {
  int n = a.n + b.n;
  for (int i = 0, k = 0; i < a.n && k < b.n;) {
    n -= a.at[i] == b.at[k];
    if (a.at[i] < b.at[k]) i++;
    else k++;
  }
  return n;
}

bool set_meets(Set a, Set b) { return set_union_count(a, b) < a.n + b.n; }

Set set_union(Arena *arena, Set a, Set b) {
  int n = a.at == b.at && a.n == b.n ? a.n : set_union_count(a, b);
  if (n == a.n) return a;
  if (n == b.n) return b;
  int *at = NEW_N(arena, int, n);
  for (int i = 0, k = 0, m = 0; m < n; m++) {
    int v = k == b.n || (i < a.n && a.at[i] <= b.at[k]) ? a.at[i] : b.at[k];
    if (i < a.n && a.at[i] == v) i++;
    if (k < b.n && b.at[k] == v) k++;
    at[m] = v;
  }
  return (Set){n, at};
}

Set set_without(Arena *arena, Set s, int v) {
  if (!set_has(s, v)) return s;
  int *at = NEW_N(arena, int, s.n), n = 0;
  for (int i = 0; i < s.n; i++)
    if (s.at[i] != v) at[n++] = s.at[i];
  return (Set){n, at};
}
