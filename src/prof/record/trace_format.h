/* trace_format: how events lie in a file. Only trace.c and trace_read.c look here.
 *
 *     header   "NEREIDTR", u32 version, u32 process
 *     chunk*   u32 'NRCK', u32 length, u64 hash of the payload, payload
 *     end      a chunk of length 0: the process closed its trace (chunks may follow, when an exec failed after all)
 *
 * A payload is records, one after the other: a byte that says what follows, then its numbers as base-128 varints
 * (signed ones zigzag, times as differences from the record before, within the chunk). RECORD_STRING is a string's id,
 * length and bytes; a string stands before the first event that names it. Everything else is an event's kind.
 */
#ifndef NEREID_PROF_TRACE_FORMAT_H
#define NEREID_PROF_TRACE_FORMAT_H

#include "prof/record/trace.h"

enum {
  TRACE_VERSION = 1,
  TRACE_HEADER = 16,
  TRACE_CHUNK_HEADER = 16,
  TRACE_CHUNK = 256 << 10, /* payload bytes at most */
  TRACE_TEXT = 32 << 10,   /* bytes of a string at most; longer ones are cut */
  RECORD_STRING = 0xff,
  RECORD_MAX = 10 * (TRACE_STACK + 32), /* bytes of an event's record at most */
};
#define TRACE_MAGIC "NEREIDTR"
#define TRACE_CHUNK_MAGIC 0x4b43524eu

/* One list of fields serves both directions: what is written from *value, or read into it. A read past the end sets
 * `bad`. */
typedef struct TraceCodec {
  uint8_t *at, *end;
  bool writes, bad;
  int64_t last_time;
} TraceCodec;
void trace_code_number(TraceCodec *c, uint64_t *value);
void trace_code_event(TraceCodec *c, TraceEvent *e); /* all but the kind's byte */

#endif
