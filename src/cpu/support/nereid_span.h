/* nereid_span: whether two arrays lie apart, by the spans of base/span.h. What nereid_apart() ends with. */
/* The host may know where an array ends that the kernel's indices do not tell. */
ND_SPAN NdSpan nd_span_array(NdSpan a, uint64_t pointer, const NereidHost *host) {
  int64_t array[2];
  return host->array && host->array(host->arg, pointer, array) ? nd_span_meet(a, nd_span_of(array[0], array[1])) : a;
}
ND_SPAN int nd_span_apart(NdSpan a, uint64_t p, NdSpan b, uint64_t q, int or_same, const NereidHost *host) {
  if (or_same && p == q) return 1;
  const NdSpan x = nd_span_plus(a, nd_span_of((int64_t)p, (int64_t)p)),
               y = nd_span_plus(b, nd_span_of((int64_t)q, (int64_t)q));
  return !nd_span_meets(x, y) || !nd_span_meets(nd_span_array(x, p, host), nd_span_array(y, q, host));
}
