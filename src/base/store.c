/* What a cache on disk is made of: whole files, files that tell whether they are whole, and private folders to build
 * in.
 *
 * Behind the content of a sealed file stand 48 bytes: a magic word, the content's size and its hash. A file that does
 * not agree with them was damaged or half copied, and counts as absent. The seal stands at the end, so that tools which
 * know the content by its first bytes (an ELF image) still take the file.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum { SEAL_BYTES = 48, MOST_BYTES = 1 << 30 };
static const char seal_magic[8] = "NEREIDso";

bool file_read(const char *path, Buf *out) {
  int fd = file_open(path, MOST_BYTES, NULL);
  if (fd < 0) return false;
  char chunk[1 << 15];
  ssize_t n;
  while ((n = read(fd, chunk, sizeof chunk)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    buf_write(out, chunk, (size_t)n);
  }
  int error = errno;
  close(fd);
  errno = error;
  return n == 0 && !out->failed;
}

bool file_write_new(const char *path, const void *bytes, size_t n) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const char *at = bytes;
  bool ok = true;
  while (n && ok) {
    ssize_t written = write(fd, at, n);
    if (written < 0 && errno == EINTR) continue;
    ok = written > 0;
    if (ok) at += written, n -= (size_t)written;
  }
  return close(fd) == 0 && ok;
}

void seal_add(Buf *b) {
  char hash[33];
  hash_hex(b->at ? b->at : "", b->n, hash);
  uint64_t size = b->n;
  buf_write(b, seal_magic, 8);
  buf_write(b, &size, 8);
  buf_write(b, hash, 32);
}

bool seal_take(Buf *b) {
  if (b->failed || b->n < SEAL_BYTES) return false;
  size_t content = b->n - SEAL_BYTES;
  const char *seal = b->at + content;
  uint64_t size;
  char hash[33];
  memcpy(&size, seal + 8, 8);
  if (memcmp(seal, seal_magic, 8) || size != content) return false;
  hash_hex(b->at, content, hash);
  if (memcmp(seal + 16, hash, 32)) return false;
  b->n = content;
  b->at[content] = 0;
  return true;
}

char *folder_private(Context *cx, const char *parent) {
  return mkdtemp(arena_printf(cx->arena, "%s/nereid-build-XXXXXX", parent));
}

void folder_remove(const char *folder, const char *const *names) {
  char path[PATH_MAX];
  for (; *names; names++) {
    snprintf(path, sizeof path, "%s/%s", folder, *names);
    unlink(path);
  }
  rmdir(folder);
}
