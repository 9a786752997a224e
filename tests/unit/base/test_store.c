/* The cache on disk: whom it trusts, what it makes of damage, how it stays small, and what it sweeps; temporary
 * folders. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

static char top[64], folder[80]; /* folder = top/cache */

static const char *in_folder(const char *name) {
  static char path[4][300];
  static int next;
  char *at = path[next++ % 4];
  snprintf(at, sizeof path[0], "%s/%s", folder, name);
  return at;
}

static void keep(const char *name, const char *text) { assert_true(store_keep("cpu", name, "me", text, strlen(text))); }

static bool has(const char *name, const char *text) {
  Buf b = {0};
  bool found = store_find("cpu", name, "me", &b);
  bool same = found && b.n == strlen(text) && !memcmp(b.at, text, b.n);
  assert_true(same == found);
  buf_destroy(&b);
  return found;
}

static int count_files(const char *path) {
  DIR *d = opendir(path);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
  if (d) closedir(d);
  return n;
}

/* Set back by so many seconds. */
static void age(const char *path, int seconds) {
  struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
  assert_int_equal(utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW), 0);
}

static int mode_of(const char *path) {
  struct stat st;
  assert_int_equal(lstat(path, &st), 0);
  return st.st_mode & 07777;
}

static int setup(void **state) {
  strcpy(top, "/tmp/nereid-test-store-XXXXXX");
  if (!mkdtemp(top)) return -1;
  snprintf(folder, sizeof folder, "%s/cache", top);
  setenv("NEREID_CACHE_DIR", folder, 1);
  unsetenv("NEREID_CACHE_SIZE");
  unsetenv("TMPDIR");
  return 0;
}

static int teardown(void **state) {
  const char *argv[] = {"/bin/rm", "-rf", top, NULL};
  return process_run(argv, NULL);
}

static void test_private(void **state) {
  mode_t before = umask(0);
  keep("a", "one");
  TempFolder t;
  assert_true(store_temp(&t));
  umask(before);
  assert_int_equal(mode_of(folder), 0700);
  assert_int_equal(mode_of(in_folder("cpu")), 0700);
  assert_int_equal(mode_of(in_folder("cpu/a")), 0600);
  assert_int_equal(mode_of(in_folder("tmp")), 0700);
  assert_int_equal(mode_of(t.path), 0700);
  temp_remove(&t);
  assert_true(has("a", "one"));
}

static bool is_refused(const char *with) {
  Buf why = {0};
  bool problem = store_problem(&why);
  if (problem && !strstr(why.at, with)) fail_msg("'%s' is not in: %s", with, why.at);
  bool found = has("a", "one");
  assert_true(problem == !found);
  assert_true(store_keep("cpu", "b", "me", "x", 1) == found);
  buf_destroy(&why);
  return problem;
}

static void test_folders(void **state) {
  keep("a", "one");
  assert_false(is_refused(""));
  static const int modes[] = {0770, 0702, 0777, 01777};
  for (int i = 0; i < 4; i++) {
    chmod(folder, (mode_t)modes[i]);
    assert_true(is_refused("other users may write there"));
    chmod(folder, 0755);
    assert_false(is_refused(""));
  }
  chmod(top, 0777); /* who may write there may put another folder in this one's place */
  assert_true(is_refused("other users may write there"));
  chmod(top, 01777); /* sticky: not */
  assert_false(is_refused(""));
  chmod(top, 0700);
  setenv("HOME", folder, 1); /* what stands above the home folder is the administrator's */
  chmod(top, 0777);
  assert_false(is_refused(""));
  chmod(top, 0700);
  unsetenv("HOME");
  chmod(in_folder("cpu"), 0777);
  assert_false(has("a", "one"));
  assert_false(store_keep("cpu", "b", "me", "x", 1));
  chmod(in_folder("cpu"), 0700);
  assert_true(has("a", "one"));
  if (geteuid() == 0) { /* only root can make the test */
    assert_int_equal(chown(folder, 12345, 12345), 0);
    assert_true(is_refused("another user"));
    assert_int_equal(chown(folder, 0, 0), 0);
    assert_int_equal(chown(top, 12345, 12345), 0);
    assert_true(is_refused("another user"));
    assert_int_equal(chown(top, 0, 0), 0);
    assert_false(is_refused(""));
  }
}

static void test_files(void **state) {
  keep("a", "one");
  chmod(in_folder("cpu/a"), 0666);
  assert_false(has("a", "one"));
  chmod(in_folder("cpu/a"), 0600);
  assert_true(has("a", "one"));
  if (geteuid() == 0) {
    assert_int_equal(chown(in_folder("cpu/a"), 12345, 12345), 0);
    assert_false(has("a", "one"));
    assert_int_equal(chown(in_folder("cpu/a"), 0, 0), 0);
  }
  assert_int_equal(symlink(in_folder("cpu/a"), in_folder("cpu/link")), 0);
  assert_int_equal(mkfifo(in_folder("cpu/fifo"), 0600), 0);
  assert_int_equal(mkdir(in_folder("cpu/folder"), 0700), 0);
  assert_false(has("link", "one"));
  assert_false(has("fifo", "one"));
  assert_false(has("folder", "one"));
  keep("link", "two"); /* in the link's place, not where it leads */
  assert_true(has("a", "one"));
  assert_true(has("link", "two"));
  assert_int_equal(rename(in_folder("cpu"), in_folder("real")), 0);
  assert_int_equal(symlink("real", in_folder("cpu")), 0);
  assert_false(has("a", "one"));
}

static void swap_for_ever(void) {
  for (int i = 0;; i++) {
    unlink(in_folder("next"));
    if (i % 3 == 2) symlink("../evil", in_folder("next"));
    else link(in_folder(i % 3 ? "evil" : "good"), in_folder("next"));
    rename(in_folder("next"), in_folder("cpu/a"));
    unlink(in_folder("next")); /* rename leaves it where both are one file */
  }
}

/* Another process swaps an entry for one that others may write, and for a link, again and again: whatever was checked
 * is what is read, so the other content is never found. */
static void test_swapped(void **state) {
  keep("a", "evil");
  assert_int_equal(rename(in_folder("cpu/a"), in_folder("evil")), 0);
  chmod(in_folder("evil"), 0666);
  keep("a", "good");
  assert_int_equal(link(in_folder("cpu/a"), in_folder("good")), 0);
  pid_t child = fork();
  if (!child) swap_for_ever();
  int good = 0, others = 0;
  for (int i = 0; i < 20000; i++) {
    Buf b = {0};
    if (!store_find("cpu", "a", "me", &b)) continue;
    *(b.n == 4 && !memcmp(b.at, "good", 4) ? &good : &others) += 1;
    buf_destroy(&b);
  }
  kill(child, SIGKILL); /* before anything can fail */
  waitpid(child, NULL, 0);
  assert_int_equal(others, 0);
  assert_true(good > 0);
}

static void test_damage(void **state) {
  keep("a", "one and some more");
  Buf whole = {0};
  assert_true(file_read(in_folder("cpu/a"), &whole));
  assert_int_equal(rename(in_folder("cpu/a"), in_folder("cpu/b")), 0);
  assert_false(has("b", "one and some more")); /* it is not that entry */
  for (size_t i = 0; i < whole.n; i++) {
    whole.at[i] ^= 1;
    unlink(in_folder("cpu/a"));
    assert_true(file_write_new(in_folder("cpu/a"), whole.at, whole.n));
    assert_false(has("a", "one and some more"));
    whole.at[i] ^= 1;
    unlink(in_folder("cpu/a"));
    assert_true(file_write_new(in_folder("cpu/a"), whole.at, i));
    assert_false(has("a", "one and some more"));
  }
  unlink(in_folder("cpu/a"));
  assert_true(file_write_new(in_folder("cpu/a"), whole.at, whole.n));
  assert_true(has("a", "one and some more"));
  buf_destroy(&whole);
}

static void test_makers(void **state) {
  Buf b = {0};
  assert_true(store_keep("cpu", "a", "gcc 12", "code", 4));
  assert_false(store_find("cpu", "a", "gcc 13", &b));
  assert_false(store_find("cpu", "a", "gcc 1", &b));
  assert_true(store_find("cpu", "a", "gcc 12", &b));
  buf_destroy(&b);
  assert_true(store_find("cpu", "a", "", &b));
  assert_string_equal(b.at, "code");
  buf_destroy(&b);
  assert_true(store_keep(".", "plain.txt", NULL, "text\n", 5));
  assert_true(file_read(in_folder("plain.txt"), &b));
  assert_string_equal(b.at, "text\n");
  buf_destroy(&b);
}

static void test_sizes(void **state) {
  int64_t n;
  assert_true(parse_size("4096", &n) && n == 4096);
  assert_true(parse_size("500M", &n) && n == 500 << 20);
  assert_true(parse_size("1.5GiB", &n) && n == 3LL << 29);
  assert_true(parse_size("2kB", &n) && n == 2048);
  assert_true(parse_size("0", &n) && n == 0);
  static const char *const wrong[] = {"", "M", "-1", "1X", "1MM", "nan", "1e30"};
  for (int i = 0; i < 7; i++)
    if (parse_size(wrong[i], &n)) fail_msg("%s", wrong[i]);
  assert_int_equal(store_limit(), 1 << 30);
  setenv("NEREID_CACHE_SIZE", "64K", 1);
  assert_int_equal(store_limit(), 65536);
  setenv("NEREID_CACHE_SIZE", "many", 1);
  assert_int_equal(store_limit(), 1 << 30);
}

enum { ENTRIES = 20, ENTRY = 10000 };

static void test_limit(void **state) {
  static char text[ENTRY + 1];
  memset(text, 'x', ENTRY);
  char name[32];
  for (int i = 0; i < ENTRIES; i++) {
    snprintf(name, sizeof name, "e%d", i);
    keep(name, text);
    snprintf(name, sizeof name, "cpu/e%d", i);
    age(in_folder(name), 100000 - 1000 * i);
  }
  assert_true(store_keep(".", "ceilings.txt", NULL, text, ENTRY));
  age(in_folder("ceilings.txt"), 200000);
  StoreSize s = store_size();
  assert_int_equal(s.entries, ENTRIES);
  assert_int_equal(s.bytes, ENTRIES * 12288);
  assert_true(has("e0", text)); /* used just now, so it stays */
  setenv("NEREID_CACHE_SIZE", "128K", 1);
  keep("new", text);
  s = store_size();
  assert_in_range(s.bytes, 64 << 10, 128 << 10);
  assert_true(has("new", text));
  assert_true(has("e0", text));
  assert_true(has("e19", text));
  assert_false(has("e1", text)); /* used longest ago */
  assert_int_equal(access(in_folder("ceilings.txt"), F_OK), 0);
  assert_true(store_trim(0));
  assert_int_equal(store_size().entries, 0);
  assert_int_equal(access(in_folder("ceilings.txt"), F_OK), 0);
}

/* Several processes that write, read and throw away: what is found is whole. */
static int work(int seed) {
  char name[32], text[600];
  for (int i = 0; i < 300; i++) {
    int k = (i * 7 + seed * 3) % 40;
    snprintf(name, sizeof name, "e%d", k);
    int n = snprintf(text, sizeof text, "%d:%0*d", k, 100 + k, k);
    Buf b = {0};
    if (i % 3 == 0) store_keep("cpu", name, "me", text, (size_t)n);
    else if (store_find("cpu", name, "me", &b) && (b.n != (size_t)n || memcmp(b.at, text, b.n))) return 1;
    buf_destroy(&b);
  }
  return 0;
}

static void test_processes(void **state) {
  enum { N = 6 };
  setenv("NEREID_CACHE_SIZE", "64K", 1); /* 16 entries */
  pid_t child[N];
  for (int i = 0; i < N; i++)
    if (!(child[i] = fork())) _exit(work(i));
  for (int i = 0; i < N; i++) {
    int status = -1;
    waitpid(child[i], &status, 0);
    assert_int_equal(status, 0);
  }
  assert_true(store_trim(64 << 10)); /* the last writer may have come while another one was looking */
  assert_in_range(store_size().bytes, 1, 64 << 10);
}

static void test_full(void **state) {
  static char text[100001];
  memset(text, 'x', 100000);
  pid_t child = fork();
  if (!child) { /* a write of more fails half way */
    struct rlimit r = {50000, 50000};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &r);
    _exit(store_keep("cpu", "a", "me", text, 100000) || errno != EFBIG || !store_keep("cpu", "b", "me", "small", 5));
  }
  int status = -1;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  assert_false(has("a", text));
  assert_true(has("b", "small"));
  assert_int_equal(count_files(in_folder("cpu")), 1);
}

static void test_read_only(void **state) {
  keep("a", "one");
  chmod(in_folder("cpu"), 0500), chmod(folder, 0500);
  assert_true(has("a", "one"));
  if (geteuid() != 0) assert_false(store_keep("cpu", "b", "me", "x", 1));
  chmod(folder, 0700), chmod(in_folder("cpu"), 0700);
}

/* A writer that is killed leaves a file of another name, which goes when it is old. */
static void test_killed(void **state) {
  static char text[3000001];
  memset(text, 'x', 3000000);
  for (int i = 0; i < 10; i++) {
    pid_t child = fork();
    if (!child)
      for (;;) store_keep("cpu", "a", "me", text, 3000000);
    usleep(3000 + 1500 * (unsigned)i);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    has("a", text); /* whole or not there */
  }
  keep("b", "one");
  assert_true(file_write_new(in_folder("cpu/.tmp-left"), "x", 1));
  assert_true(store_trim(1LL << 40));
  assert_int_equal(access(in_folder("cpu/.tmp-left"), F_OK), 0); /* it may be written right now */
  age(in_folder("cpu/.tmp-left"), 3600);
  assert_true(store_trim(1LL << 40));
  assert_int_not_equal(access(in_folder("cpu/.tmp-left"), F_OK), 0);
  assert_true(has("b", "one"));
}

static void write_in(const TempFolder *t, const char *name) {
  char path[1000];
  snprintf(path, sizeof path, "%s/%s", t->path, name);
  assert_true(file_write_new(path, "x", 1));
}

static void test_temp(void **state) {
  TempFolder t, u;
  setenv("TMPDIR", top, 1);
  assert_true(temp_create(&t, NULL));
  assert_int_equal(strncmp(t.path, top, strlen(top)), 0);
  assert_int_equal(mode_of(t.path), 0700);
  char inner[400], path[400];
  snprintf(inner, sizeof inner, "%s/inner", t.path);
  mkdir(inner, 0700);
  for (int i = 0; i < 200; i++) {
    snprintf(path, sizeof path, "a-file-with-a-name-of-some-length-%d", i);
    write_in(&t, path);
    snprintf(path, sizeof path, "inner/%d", i);
    write_in(&t, path);
  }
  temp_remove(&t);
  assert_int_equal(count_files(top), 0);
  temp_remove(&t); /* again */
  assert_true(temp_create(&t, NULL));
  assert_true(temp_create(&u, NULL));
  write_in(&u, "x");
  pid_t child = fork();
  if (!child) temp_remove_all(), _exit(0);
  waitpid(child, NULL, 0);
  assert_int_equal(count_files(top), 2); /* the child has none */
  temp_remove_all();
  assert_int_equal(count_files(top), 0);
  temp_remove(&t), temp_remove(&u);
  int fd = temp_file();
  assert_true(fd >= 0);
  assert_int_equal(count_files(top), 0);
  close(fd);
  setenv("TMPDIR", "/no/such/folder", 1);
  assert_false(temp_create(&t, NULL));
  assert_int_equal(errno, ENOENT);
  temp_remove(&t);
}

/* What a killed process left goes with the next one's folder; what one that lives works in does not. */
static void test_sweep(void **state) {
  int ready[2];
  char name[2][400] = {{0}};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
      TempFolder t;
      bool made = temp_create(&t, top);
      if (made) write_in(&t, "kernel.c");
      if (write(ready[1], t.path, strlen(t.path) + 1) < 0) _exit(1);
      for (;;) pause();
    }
    assert_true(read(ready[0], name[i], sizeof name[i]) > 0);
    close(ready[0]), close(ready[1]);
    if (i == 0) kill(child, SIGKILL), waitpid(child, NULL, 0);
    else {
      TempFolder t;
      age(name[0], 3600), age(name[1], 3600);
      assert_true(temp_create(&t, top));
      assert_int_not_equal(access(name[0], F_OK), 0);
      assert_int_equal(access(name[1], F_OK), 0);
      kill(child, SIGKILL), waitpid(child, NULL, 0);
      temp_remove(&t);
      assert_true(temp_create(&t, top)); /* nobody's now, but not old: its mtime was set when it was written to */
      temp_remove(&t);
    }
  }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_private),   TEST(test_folders), TEST(test_files), TEST(test_swapped), TEST(test_damage),
      TEST(test_makers),    TEST(test_sizes),   TEST(test_limit), TEST(test_full),    TEST(test_processes),
      TEST(test_read_only), TEST(test_killed),  TEST(test_temp),  TEST(test_sweep),
  };
  return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
