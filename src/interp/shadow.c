/* Shadow: who touched which byte during a launch, to find races between programs.
 *
 * Memory is watched in pages of 4 KiB, kept in a hash table and made when first touched. A page is an array of cells; a
 * cell stands for 1 to 64 bytes, as coarse as the accesses so far allow: a page written only in runs that begin and end
 * at multiples of 64 has 64 cells, and when a finer access comes its cells are split. So a launch over large arrays
 * costs a fraction of their size.
 *
 * A cell says what happened to its bytes:
 *
 *     0                      nobody was there
 *     first, kinds           one program read, wrote and/or updated them atomically
 *     first, second, kind    several programs all read them, or all updated them; two are remembered by name
 *
 * Any other combination of programs is a conflict, unless the earlier access is ordered before this one. Programs order
 * themselves through scalar atomics, as a lock does in layer norm's backward pass:
 *
 *     program 0:  cas(lock, 0, 1); store(sum, ...); xchg(lock, 0)         program 1:  cas(lock, 0, 1); load(sum) ...
 *
 * Therefore a cell names not programs but segments. A program begins a new segment after each release; an acquire of an
 * address adds an edge from the running segment to the one that last released that address. An access is ordered before
 * the running segment when a path of edges leads to a segment of the same program that is not older. Paths are looked
 * for only when there would be a conflict. While programs run one after the other, edges lead back in time, and the
 * search leaves out what is older than its goal; once programs have given way to each other it looks at all. A read
 * that is ordered after a write leaves the cell to the writer: some races with that read go unseen, none is invented.
 */
#include "interp/memory.h"

#include <stdlib.h>

enum { PAGE_BITS = 12, PAGE_BYTES = 1 << PAGE_BITS, COARSEST = 6, CHUNK_CELLS = 1 << 16 };

/* Cell: first | second << 30 | kinds << 60, with segments counted from 1. */
#define SEGMENT_MASK ((1ULL << 30) - 1)
#define CELL(first, second, kinds) ((uint64_t)(first) | (uint64_t)(second) << 30 | (uint64_t)(kinds) << 60)

typedef struct Page {
  uintptr_t number; /* address >> PAGE_BITS */
  uint64_t *cells;  /* NULL: this place of the table is free */
  int shift;        /* a cell covers 1 << shift bytes */
} Page;

typedef struct CellChunk {
  struct CellChunk *next;
  uint64_t cells[CHUNK_CELLS];
} CellChunk;

typedef struct Segment {
  int64_t program;
  uint32_t run;        /* which of the launch's runs of a program, from 1 */
  uint32_t before;     /* the same run's segment before this one; 0: none */
  uint32_t first_edge; /* 0: none */
  uint32_t first_seen; /* edges that the next acquire of the run adds: releases that relaxed atomics have seen */
} Segment;

typedef struct Edge {
  uint32_t to, next;
} Edge;

typedef struct Release {
  uintptr_t addr; /* 0: free */
  uint32_t segment;
} Release;

struct Shadow {
  Page *pages;
  size_t page_count, page_capacity; /* capacity is a power of two */
  Page *last;
  CellChunk *chunks;
  size_t chunk_used;

  Segment *segments; /* [1, segment_count] */
  uint32_t segment_count, segment_capacity;
  uint32_t now;         /* the running one */
  uint32_t run_count;   /* programs that have begun */
  bool has_interleaved; /* edges may lead forth in time */
  Edge *edges;          /* [1, edge_count] */
  uint32_t edge_count, edge_capacity;
  Release *releases;
  size_t release_count, release_capacity;

  uint32_t known_before, known_at, known_edges; /* the last path found: known_before is ordered before known_at */
  uint32_t *stack;                              /* for the search: segments to visit */
  uint32_t *marks;                              /* per segment: the search that saw it last */
  uint32_t search, search_capacity;
};

Shadow *shadow_create(void) { return calloc(1, sizeof(Shadow)); }

void shadow_destroy(Shadow *s) {
  if (!s) return;
  for (CellChunk *c = s->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(s->pages);
  free(s->segments);
  free(s->edges);
  free(s->releases);
  free(s->stack);
  free(s->marks);
  free(s);
}

/* ---- segments and their order ------------------------------------------------------------------------------------ */

static bool push_segment(Shadow *s, int64_t program, uint32_t run, uint32_t before) {
  if (s->segment_count + 2 >= s->segment_capacity) {
    uint32_t capacity = s->segment_capacity ? s->segment_capacity * 2 : 256;
    if (capacity > SEGMENT_MASK + 1) return false;
    Segment *grown = realloc(s->segments, capacity * sizeof *grown);
    if (!grown) return false;
    s->segments = grown;
    s->segment_capacity = capacity;
  }
  s->now = ++s->segment_count;
  s->segments[s->now] = (Segment){.program = program, .run = run, .before = before};
  if (before) s->segments[s->now].first_seen = s->segments[before].first_seen;
  return true;
}

bool shadow_begin_program(Shadow *s, int64_t program) { return push_segment(s, program, ++s->run_count, 0); }

ShadowProgram shadow_leave(const Shadow *s) { return (ShadowProgram){s->segments[s->now].run, s->now}; }

void shadow_enter(Shadow *s, ShadowProgram p) {
  s->has_interleaved |= s->now != p.segment;
  s->now = p.segment;
}

static bool own(const Shadow *s, uint32_t segment) { return s->segments[segment].run == s->segments[s->now].run; }

/* Onto a list of the running segment. */
static bool push_edge(Shadow *s, uint32_t *first, uint32_t to) {
  if (*first && s->edges[*first].to == to) return true;
  if (s->edge_count + 2 >= s->edge_capacity) {
    uint32_t capacity = s->edge_capacity ? s->edge_capacity * 2 : 64;
    Edge *grown = realloc(s->edges, capacity * sizeof *grown);
    if (!grown) return false;
    s->edges = grown;
    s->edge_capacity = capacity;
  }
  s->edges[++s->edge_count] = (Edge){to, *first};
  *first = s->edge_count;
  return true;
}

static uint32_t *now_edges(Shadow *s) { return &s->segments[s->now].first_edge; }

static uint64_t hash_addr(uintptr_t x) { return (uint64_t)x * 0x9E3779B97F4A7C15ULL >> 16; }

static Release *find_release(Shadow *s, uintptr_t addr) {
  if (!s->release_capacity) return NULL;
  size_t mask = s->release_capacity - 1;
  for (size_t i = hash_addr(addr) & mask;; i = (i + 1) & mask)
    if (s->releases[i].addr == addr || s->releases[i].addr == 0) return &s->releases[i];
}

static bool grow_releases(Shadow *s) {
  Release *old = s->releases;
  size_t n = s->release_capacity, capacity = n ? n * 2 : 64;
  Release *grown = calloc(capacity, sizeof *grown);
  if (!grown) return false;
  s->releases = grown;
  s->release_capacity = capacity;
  for (size_t i = 0; i < n; i++)
    if (old[i].addr) *find_release(s, old[i].addr) = old[i];
  free(old);
  return true;
}

bool shadow_sync(Shadow *s, uintptr_t addr, bool acquire, bool release) {
  if (s->release_count * 2 >= s->release_capacity && !grow_releases(s)) return false;
  Release *r = find_release(s, addr);
  uint32_t *list = acquire ? now_edges(s) : &s->segments[s->now].first_seen;
  if (r->addr && !own(s, r->segment) && !push_edge(s, list, r->segment)) return false;
  if (!release) return true;
  uint32_t mine = s->now, others = acquire ? 0 : r->segment;
  s->release_count += !r->addr;
  r->addr = addr;
  int64_t program = s->segments[mine].program;
  r->segment = mine;
  if (others && !own(s, others)) { /* who acquires what this one leaves acquires what was there, too */
    if (!push_segment(s, program, ++s->run_count, mine) || !push_edge(s, now_edges(s), others)) return false;
    r->segment = s->now;
  }
  return push_segment(s, program, s->segments[mine].run, mine);
}

bool shadow_acquire(Shadow *s) {
  for (uint32_t e = s->segments[s->now].first_seen; e; e = s->edges[e].next)
    if (!push_edge(s, now_edges(s), s->edges[e].to)) return false;
  s->segments[s->now].first_seen = 0;
  return true;
}

/* Puts a segment on the stack, unless it was there or is too old; returns the stack's new top. */
static uint32_t visit(Shadow *s, uint32_t segment, uint32_t least, uint32_t top) {
  if (segment < least || s->marks[segment] == s->search) return top;
  s->marks[segment] = s->search;
  s->stack[top] = segment;
  return top + 1;
}

/* Whether what `earlier` did is ordered before the running segment: 1, 0, or -1 when out of memory. */
static int ordered(Shadow *s, uint32_t earlier) {
  uint32_t now = s->now;
  if (s->edge_count == 0) return 0;
  if (s->known_before == earlier && s->known_at == now && s->known_edges == s->edge_count) return 1;
  if (s->search_capacity < s->segment_capacity) {
    free(s->stack);
    free(s->marks);
    s->stack = malloc(s->segment_capacity * sizeof *s->stack);
    s->marks = calloc(s->segment_capacity, sizeof *s->marks);
    s->search = 0;
    s->search_capacity = s->stack && s->marks ? s->segment_capacity : 0;
    if (!s->search_capacity) return -1;
  }
  if (++s->search == 0) { /* the counter went round */
    memset(s->marks, 0, s->search_capacity * sizeof *s->marks);
    s->search = 1;
  }
  uint32_t top = 0, least = s->has_interleaved ? 1 : earlier;
  s->stack[top++] = now;
  s->marks[now] = s->search;
  while (top) {
    uint32_t at = s->stack[--top];
    const Segment *segment = &s->segments[at];
    if (at >= earlier && segment->run == s->segments[earlier].run) {
      s->known_before = earlier, s->known_at = now, s->known_edges = s->edge_count;
      return 1;
    }
    top = visit(s, segment->before, least, top);
    for (uint32_t e = segment->first_edge; e; e = s->edges[e].next) top = visit(s, s->edges[e].to, least, top);
  }
  return 0;
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static uint64_t *new_cells(Shadow *s, size_t n) {
  if (!s->chunks || s->chunk_used + n > CHUNK_CELLS) {
    CellChunk *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->next = s->chunks;
    s->chunks = c;
    s->chunk_used = 0;
  }
  uint64_t *cells = s->chunks->cells + s->chunk_used;
  s->chunk_used += n;
  return cells;
}

static Page *place_of(Shadow *s, uintptr_t number) {
  size_t mask = s->page_capacity - 1;
  for (size_t i = hash_addr(number) & mask;; i = (i + 1) & mask)
    if (!s->pages[i].cells || s->pages[i].number == number) return &s->pages[i];
}

/* The page, made if need be, with cells no coarser than 1 << shift bytes. */
static Page *get_page(Shadow *s, uintptr_t number, int shift) {
  Page *p = s->last;
  if (!p || p->number != number) {
    if (s->page_count * 2 >= s->page_capacity) {
      Page *old = s->pages;
      size_t n = s->page_capacity, capacity = n ? n * 2 : 256;
      Page *grown = calloc(capacity, sizeof *grown);
      if (!grown) return NULL;
      s->pages = grown;
      s->page_capacity = capacity;
      for (size_t i = 0; i < n; i++)
        if (old[i].cells) *place_of(s, old[i].number) = old[i];
      free(old);
      s->last = NULL;
    }
    p = place_of(s, number);
    if (!p->cells) {
      uint64_t *cells = new_cells(s, PAGE_BYTES >> shift);
      if (!cells) return NULL;
      *p = (Page){.number = number, .cells = cells, .shift = shift};
      s->page_count++;
    }
    s->last = p;
  }
  if (p->shift > shift) {
    uint64_t *cells = new_cells(s, PAGE_BYTES >> shift);
    if (!cells) return NULL;
    for (int i = 0; i < PAGE_BYTES >> shift; i++) cells[i] = p->cells[i >> (p->shift - shift)];
    p->cells = cells;
    p->shift = shift;
  }
  return p;
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static Access one_kind(unsigned kinds, Access now) {
  if (now == ACCESS_READ) kinds &= ~(unsigned)ACCESS_READ; /* two reads never conflict: name the other thing */
  if (now == ACCESS_ATOMIC) kinds &= ~(unsigned)ACCESS_ATOMIC;
  return kinds & ACCESS_WRITE ? ACCESS_WRITE : kinds & ACCESS_ATOMIC ? ACCESS_ATOMIC : ACCESS_READ;
}

/* The cell after an access of `kind`; false when it conflicts. */
static bool next_cell(Shadow *s, uint64_t cell, Access kind, uint64_t *out, Conflict *conflict) {
  uint32_t now = s->now;
  uint32_t first = cell & SEGMENT_MASK, second = cell >> 30 & SEGMENT_MASK;
  unsigned kinds = (unsigned)(cell >> 60);
  if (cell == 0 || (!second && first == now)) {
    *out = CELL(now, 0, kinds | kind);
    return true;
  }
  if (!second && own(s, first)) { /* what was released since stays with the segment that it was released in */
    *out = kind == ACCESS_READ && kinds != ACCESS_READ ? cell : CELL(now, 0, kind);
    return true;
  }
  if (kinds == kind && kind != ACCESS_WRITE) {
    *out = second ? cell : CELL(first, now, kind);
    return true;
  }
  uint32_t others[2] = {first, second};
  for (int i = 0; i < 2; i++) {
    if (!others[i] || own(s, others[i])) continue;
    int order = ordered(s, others[i]);
    if (order == 1) continue;
    conflict->out_of_memory = order < 0;
    conflict->other = s->segments[others[i]].program;
    conflict->theirs = one_kind(kinds, kind);
    return false;
  }
  *out = kind == ACCESS_READ ? cell : CELL(now, 0, kind);
  return true;
}

bool shadow_access(Shadow *s, uintptr_t addr, size_t n, Access kind, Conflict *out) {
  *out = (Conflict){0};
  while (n) {
    size_t begin = addr & (PAGE_BYTES - 1), end = begin + n < PAGE_BYTES ? begin + n : PAGE_BYTES;
    int shift = __builtin_ctzll(begin | end | 1ULL << COARSEST);
    Page *p = get_page(s, addr >> PAGE_BITS, shift);
    if (!p) {
      out->out_of_memory = true;
      return false;
    }
    size_t stop = end >> p->shift;
    for (size_t i = begin >> p->shift; i < stop;) {
      uint64_t cell = p->cells[i], next;
      size_t j = i + 1;
      while (j < stop && p->cells[j] == cell) j++;
      if (!next_cell(s, cell, kind, &next, out)) {
        out->addr = (addr & ~(uintptr_t)(PAGE_BYTES - 1)) + (i << p->shift);
        if (out->addr < addr) out->addr = addr;
        return false;
      }
      if (next != cell)
        for (size_t k = i; k < j; k++) p->cells[k] = next;
      i = j;
    }
    addr += end - begin;
    n -= end - begin;
  }
  return true;
}
