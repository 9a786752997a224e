/* Tests of the views of a trace (src/prof/view/table.c, chrome.c, page.c, flame.c and what is under them; of advice
 * test_advice.c): every figure that is expected can be worked out by hand, and the comments do.
 *
 * `test_views --write DIR` writes a larger made-up run and all its views to DIR instead: tests/prof/check_views looks
 * at them with other eyes (Python reads the JSON, a browser opens the page). */
#include "test_views_kit.h"

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* One step: range "step" 0..100 with two launches (10..16, 20..24) of kernels of 30 and 12 us and a
 * synchronisation 40..90. */
static void one_step(Maker *m) {
  kernel(m, "add", 18, 48, 1); /* before its call's record */
  launch(m, 10, 16, 1);
  launch(m, 20, 24, 2);
  call(m, CALL_SYNC, "cudaDeviceSynchronize", 40, 90, 3);
  range(m, "step", 0, 100);
  kernel(m, "mul", 48, 60, 2);
}

static void table_self_and_total_by_nesting(void **state) {
  Maker m = make();
  one_step(&m);
  char *text = show(&m, view_table, &(ViewOptions){.json = true});
  /* step: 100 - 6 - 4 - 50 = 40 itself; the GPU's 42 were started within it. */
  expect_row(text, "step",
             "\"kind\": \"range\", \"calls\": 1, \"self_cpu_ns\": 40000, \"cpu_ns\": 100000, \"self_cuda_ns\": 0, "
             "\"cuda_ns\": 42000");
  expect_row(text, "cudaLaunchKernel",
             "\"calls\": 2, \"self_cpu_ns\": 10000, \"cpu_ns\": 10000, \"self_cuda_ns\": 0, \"cuda_ns\": 42000");
  expect_row(text, "cudaDeviceSynchronize",
             "\"calls\": 1, \"self_cpu_ns\": 50000, \"cpu_ns\": 50000, \"self_cuda_ns\": 0, \"cuda_ns\": 0");
  expect_row(text, "add",
             "\"kind\": \"kernel\", \"calls\": 1, \"self_cpu_ns\": 0, \"cpu_ns\": 0, \"self_cuda_ns\": 30000, "
             "\"cuda_ns\": 30000");
  expect(text, "\"self_cpu_ns\": 100000, \"self_cuda_ns\": 42000, \"gpu\": true, \"truncated\": false, \"lost\": 0, "
               "\"row_count\": 5");
  free(text);
  text = show(&m, view_table, &(ViewOptions){.rows = 2});
  assert_string_equal(text, "--------------------  ------------  ------------  ------------  ------------  "
                            "------------  ------------  ------------  ------------  ------------  ------------\n"
                            "                Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time "
                            "avg     Self CUDA   Self CUDA %    CUDA total  CUDA time avg    # of Calls\n"
                            "--------------------  ------------  ------------  ------------  ------------  "
                            "------------  ------------  ------------  ------------  ------------  ------------\n"
                            "                 add         0.00%       0.000us         0.00%       0.000us       "
                            "0.000us      30.000us        71.43%      30.000us      30.000us             1\n"
                            "                 mul         0.00%       0.000us         0.00%       0.000us       "
                            "0.000us      12.000us        28.57%      12.000us      12.000us             1\n"
                            "--------------------  ------------  ------------  ------------  ------------  "
                            "------------  ------------  ------------  ------------  ------------  ------------\n"
                            "2 of 5 rows\n"
                            "Self CPU time total: 100.000us\n"
                            "Self CUDA time total: 42.000us\n");
  free(text);
  done(&m);
}

static void table_sorts_as_asked(void **state) {
  Maker m = make();
  one_step(&m);
  static const char *const first[][2] = {{"self_cuda", "\"add\""},          {"cuda_total", "\"cudaLaunchKernel\""},
                                         {"cpu_total", "\"step\""},         {"self_cpu", "\"cudaDeviceSynchronize\""},
                                         {"calls", "\"cudaLaunchKernel\""}, {"name", "\"add\""}};
  for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
    char *text = show(&m, view_table, &(ViewOptions){.json = true, .sort = first[i][0]}),
         *name = strstr(text, "\"name\": ");
    assert_non_null(name);
    assert_memory_equal(name + 8, first[i][1], strlen(first[i][1]));
    free(text);
  }
  char why[300];
  free(show_to(&m, view_table, &(ViewOptions){.sort = "speed"}, 1, why));
  assert_string_equal(
      why, "a table cannot be sorted by \"speed\": sort by self_cuda, cuda_total, self_cpu, cpu_total, calls or name");
  done(&m);
}

static void table_takes_any_nesting(void **state) {
  Maker m = make();
  range(&m, "f", 0, 100); /* f in f: counted once in totals, twice in calls */
  range(&m, "f", 10, 30);
  range(&m, "empty", 50, 50);       /* no length */
  range_on(&m, WORKER, "f", 0, 40); /* another thread at the same time: not nested in the first */
  range(&m, "a", 60, 80);           /* overlaps b, as ranges that are begun and ended anyhow may: */
  range(&m, "b", 70, 90);           /* b covers 10 of a, and 10 of f */
  range(&m, "late", 95, 100.001);   /* outlasts f by one ns */
  range(&m, "after", 100.001, 110);
  char *text = show(&m, view_table, &(ViewOptions){.json = true});
  /* f: 100 - 20 - 20 (a) - 10 (b beyond a) - 5 (late, the ns beyond is not f's) = 45, the inner 20, the worker's 40 */
  expect_row(text, "f", "\"calls\": 3, \"self_cpu_ns\": 105000, \"cpu_ns\": 140000");
  expect_row(text, "a", "\"self_cpu_ns\": 10000, \"cpu_ns\": 20000");
  expect_row(text, "b", "\"self_cpu_ns\": 20000, \"cpu_ns\": 20000");
  expect_row(text, "empty", "\"self_cpu_ns\": 0, \"cpu_ns\": 0");
  expect_row(text, "late", "\"self_cpu_ns\": 5001, \"cpu_ns\": 5001");
  expect_row(text, "after", "\"self_cpu_ns\": 9999, \"cpu_ns\": 9999");
  free(text);
  done(&m);
}

static void table_joins_by_correlation(void **state) {
  Maker m = make();
  launch(&m, 10, 20, 1);                              /* the runtime's call and the driver's inside of it: */
  call(&m, CALL_LAUNCH, "cuLaunchKernel", 12, 18, 1); /* one number */
  kernel(&m, "k", 30, 40, 1);
  call(&m, CALL_LAUNCH, "cudaGraphLaunch", 50, 60, 2); /* one call, three kernels */
  for (int i = 0; i < 3; i++) kernel(&m, "node", 70 + 10 * i, 80 + 10 * i, 2);
  kernel(&m, "lonely", 200, 205, 77); /* its call is not in the trace */
  kernel(&m, "numberless", 210, 217, 0);
  /* a call of no length, between two others that begin with it */
  launch(&m, 300, 300, 9);
  launch(&m, 300, 300, 10);
  kernel(&m, "nine", 301, 302, 9);
  kernel(&m, "ten", 302, 304, 10);
  range(&m, "around", 299, 310);
  char *text = show(&m, view_table, &(ViewOptions){.json = true});
  expect_row(text, "cudaLaunchKernel",
             "\"calls\": 3, \"self_cpu_ns\": 4000, \"cpu_ns\": 10000, \"self_cuda_ns\": 0, \"cuda_ns\": 13000");
  expect_row(text, "cuLaunchKernel", "\"self_cpu_ns\": 6000, \"cpu_ns\": 6000, \"self_cuda_ns\": 0, \"cuda_ns\": 0");
  expect_row(text, "cudaGraphLaunch", "\"cuda_ns\": 30000");
  expect_row(text, "lonely", "\"self_cuda_ns\": 5000, \"cuda_ns\": 5000");
  expect_row(text, "numberless", "\"self_cuda_ns\": 7000, \"cuda_ns\": 7000");
  expect_row(text, "around", "\"cuda_ns\": 3000");
  free(text);
  done(&m);
}

static void table_without_a_gpu_has_no_cuda_columns(void **state) {
  Maker m = make();
  call(&m, CALL_LAUNCH, "nereid_launch", 0, 50, 1);
  kernel_on(&m, TRACE_CPU_DEVICE, 0, "softmax", 5, 45, 1);
  TraceEvent work = {.kind = TRACE_WORK, .correlation = 1, .work = {4e6, 2e6, true, trace_string(m.w, "f32[64,128]")}};
  trace_event(m.w, &work);
  char *text = show(&m, view_table, &(ViewOptions){.shapes = true});
  assert_string_equal(text, "--------------------  ------------  ------------  ------------  ------------  "
                            "------------  ------------  -----------\n"
                            "                Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time "
                            "avg    # of Calls       Shapes\n"
                            "--------------------  ------------  ------------  ------------  ------------  "
                            "------------  ------------  -----------\n"
                            "             softmax        80.00%      40.000us        80.00%      40.000us      "
                            "40.000us             1  f32[64,128]\n"
                            "       nereid_launch        20.00%      10.000us       100.00%      50.000us      "
                            "50.000us             1             \n"
                            "--------------------  ------------  ------------  ------------  ------------  "
                            "------------  ------------  -----------\n"
                            "Self CPU time total: 50.000us\n");
  free(text);
  text = show(&m, view_table, &(ViewOptions){.json = true});
  expect_row(text, "softmax", "\"flops\": 4000000, \"bytes\": 2000000");
  free(text);
  done(&m);
}

static void table_groups_by_shapes_only_when_asked(void **state) {
  Maker m = make();
  for (int i = 0; i < 4; i++) {
    launch(&m, 10 * i, 10 * i + 5, (uint64_t)i + 1);
    kernel(&m, "gelu", 10 * i + 5, 10 * i + 8, (uint64_t)i + 1);
    TraceEvent work = {.kind = TRACE_WORK,
                       .correlation = (uint64_t)i + 1,
                       .work = {0, 100, true, trace_string(m.w, i < 3 ? "f32[8]" : "f32[16]")}};
    trace_event(m.w, &work);
  }
  char *text = show(&m, view_table, &(ViewOptions){.json = true});
  assert_int_equal(occurrences(text, "{\"name\": \"gelu\""), 1);
  free(text);
  text = show(&m, view_table, &(ViewOptions){.json = true, .shapes = true});
  assert_int_equal(occurrences(text, "{\"name\": \"gelu\""), 2);
  expect(text, "\"calls\": 3, \"self_cpu_ns\": 0, \"cpu_ns\": 0, \"self_cuda_ns\": 9000, \"cuda_ns\": 9000, "
               "\"shapes\": \"f32[8]\", \"bytes\": 300");
  free(text);
  done(&m);
}

static void table_of_nothing(void **state) {
  Maker m = make();
  char *text = show(&m, view_table, NULL);
  expect(text, "Self CPU time total: 0.000us\n");
  expect_no(text, "CUDA");
  free(text);
  text = show(&m, view_advice, NULL);
  assert_string_equal(text, "nothing ran that could be judged: there are neither kernels nor copies in this trace\n");
  free(text);
  char why[300];
  free(show_to(&m, view_flame, NULL, 1, why));
  expect(why, "no samples of the CPU");
  free(show_to(&m, view_flame_gpu, NULL, 1, why));
  expect(why, "no GPU ran");
  text = show(&m, view_chrome, NULL);
  expect(text, "\"traceEvents\":[\n]}");
  free(text);
  text = show(&m, view_html, NULL);
  expect(text, "\"kept\":0");
  free(text);
  done(&m);
}

static void truncated_trace_is_shown_and_said(void **state) {
  Maker m = make();
  one_step(&m);
  trace_flush(m.w);
  Buf so_far = {0}; /* what of it would be there if the process were killed now */
  assert_true(file_read(m.path, &so_far));
  trace_close(m.w, NULL);
  m.w = NULL;
  unlink(m.path);
  assert_true(file_write_new(m.path, so_far.at, so_far.n));
  buf_destroy(&so_far);
  char *text = show(&m, view_table, NULL);
  expect(text, "add");
  expect(text, "note: the trace does not end as it should");
  free(text);
  text = show(&m, view_chrome, NULL);
  expect(text, "\"truncated\":\"true\"");
  expect(text, "\n]}\n");
  free(text);
  done(&m);
}

static void names_keep_to_their_line(void **state) {
  Maker m = make();
  range(&m, "two\nlines \033[2J", 0, 10);
  range(&m, "loss & co <x>", 20, 30); /* no name of C++ */
  range(&m, "bad \xff", 40, 50);
  note_at(&m, 1, "a note\r\nof two lines");
  char *text = show(&m, view_table, NULL);
  expect(text, "    two lines  [2J  ");
  expect(text, "       loss & co <x>  ");
  expect(text, "               bad \ufffd  ");
  expect(text, "note: a note  of two lines\n");
  expect_no(text, "\033");
  free(text);
  text = show(&m, view_tree, NULL);
  expect(text, " two lines  [2J\n");
  free(text);
  done(&m);
}

static void repeated_and_unknown_losses_are_said(void **state) {
  Maker m = make();
  one_step(&m);
  for (int i = 0; i < 3; i++) note_at(&m, 1, "the same"), note_at(&m, 1, i ? "then this" : "first this");
  for (int i = 0; i < 2; i++) {
    TraceEvent e = event(&m, TRACE_LOST, "what came too fast", 1, 1);
    e.lost.count = i ? INT64_MAX : 5;
    trace_event(m.w, &e);
    e = event(&m, TRACE_LOST, "what was damaged", 1, 1);
    e.lost.count = i ? INT64_MIN : -1;
    trace_event(m.w, &e);
  }
  char *text = show(&m, view_table, NULL);
  expect(text, "note: the same (3 times)\nnote: first this\nnote: then this (2 times)\n");
  expect(text, "note: events were lost: what was damaged (2 times)\n");
  expect_no(text, "-1");
  free(text);
  text = show(&m, view_chrome, NULL);
  expect(text, "\"events were lost: what was damaged\"");
  expect(text, "\"5 events were lost: what came too fast\"");
  free(text);
  done(&m);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void expect_name(const char *full, int width, const char *expected) {
  char text[1024];
  assert_string_equal(name_legible(full, width, text, sizeof text), expected);
  assert_true(utf8_columns(text) <= width);
}

static void names_lose_what_says_little_first(void **state) {
  const char *gelu =
      "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
      "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}"
      "::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int, at::native::GeluCUDAKernelImpl, "
      "std::array<char*, 2ul>)";
  expect_name(gelu, 200,
              "at::native::vectorized_elementwise_kernel<4, "
              "at::native::GeluCUDAKernelImpl::{lambda#2}::operator()::{lambda#4}::operator()::{lambda#1}, "
              "std::array<char*, 2>>");
  expect_name(gelu, 100, "at::native::vectorized_elementwise_kernel<4, GeluCUDAKernelImpl, array<char*, 2>>");
  expect_name(gelu, 70, "vectorized_elementwise_kernel<4, GeluCUDAKernelImpl, array<char*, 2>>");
  expect_name(gelu, 60, "vectorized_elementwise_kernel<4, GeluCUDAKernelImpl, array…>");
  expect_name("void "
              "cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_tn_align1>(cutlass_80_simt_sgemm_128x64_8x5_tn_align1:"
              ":Params)",
              60, "cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_tn_align1>");
  expect_name("void (anonymous namespace)::softmax_warp_forward<float, float, 8, (bool)0>(float*, float const*, int)",
              60, "softmax_warp_forward<float, float, 8, 0>");
  expect_name("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_"
              "kernel__5x_cublas",
              40, "sm90_xmma_gemm_f32f32_tf32…el__5x_cublas");
  expect_name("triton_poi_fused_gelu_0", 60, "triton_poi_fused_gelu_0");
  expect_name("cudaLaunchKernel", 10, "cudaLa…nel");
  expect_name("", 10, "");
  for (const char *const *p = (const char *const[]){"(", ")", "<", ">", "a<b", "a>b", "{", "operator", "operator<",
                                                    "_Z", "_ZN", "f(g(h", "::", "a::", " ", "void ", "λ<μ>(ν)", NULL};
       *p; p++) {
    char text[64];
    assert_true(utf8_columns(name_legible(*p, 8, text, sizeof text)) <= 8); /* no harm comes of what is no name */
  }
  char small[6], full[200];
  if (dlopen("libstdc++.so.6", RTLD_LAZY)) {
    const char *mangled =
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_";
    expect_name(mangled, 80, "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3>>");
    assert_string_equal(name_demangled(mangled, full, 70),
                        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFun");
  }
  assert_string_equal(name_legible("abcdefghij", 20, small, sizeof small), "abcde");
}

static void names_that_differ_stay_different(void **state) {
  const char *reduce = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::%s<float, "
                       "float, float>, unsigned int, float, 4, 4> >(int)";
  char mean[300], sum[300];
  snprintf(mean, sizeof mean, reduce, "MeanOps"), snprintf(sum, sizeof sum, reduce, "SumOps");
  const char *names[] = {mean, sum, mean, "plain"}, *out[4];
  Arena *a = arena_create(NULL);
  names_legible(a, names, 4, 40, out);
  assert_string_equal(out[0], "reduce_kernel<…MeanOps<float, float, fl…");
  assert_string_equal(out[1], "reduce_kernel<…SumOps<float, float, flo…");
  assert_string_equal(out[2], out[0]);
  assert_string_equal(out[3], "plain");
  const char *anonymous[] = {"void f(int)", "void f(float)", "void f(float*)"};
  names_legible(a, anonymous, 3, 40, out);
  assert_true(strcmp(out[0], out[1]) && strcmp(out[1], out[2]) && strcmp(out[0], out[2]));
  arena_destroy(a);
}

/* ---- sorting ----------------------------------------------------------------------------------------------------- */

static int by_first(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return (x[0] > y[0]) - (x[0] < y[0]);
}

static void sorter_is_stable_in_memory_and_through_a_file(void **state) {
  static const size_t memories[] = {1 << 22, 4096, 1};
  for (int k = 0; k < 3; k++) {
    Sorter *s = sorter_create(16, by_first, memories[k]);
    enum { N = 20000 };
    uint64_t random = 7;
    int64_t record[2], last[2] = {-1, -1}, n = 0;
    for (int i = 0; i < N; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      record[0] = (int64_t)(random >> 55), record[1] = i;
      assert_true(sorter_add(s, record));
    }
    for (; sorter_next(s, record); n++) {
      assert_true(record[0] > last[0] || (record[0] == last[0] && record[1] > last[1]));
      memcpy(last, record, sizeof last);
    }
    assert_null(sorter_error(s));
    assert_int_equal(n, N);
    sorter_free(s);
  }
  Sorter *none = sorter_create(16, by_first, 4096);
  int64_t record[2];
  assert_false(sorter_next(none, record));
  sorter_free(none);
}

static void sorter_says_that_it_cannot_write(void **state) {
  char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
  setenv("TMPDIR", "/nonexistent", 1);
  Sorter *s = sorter_create(16, by_first, 1024);
  int64_t record[2] = {0};
  bool ok = true;
  for (int i = 0; i < 1000 && ok; i++) ok = sorter_add(s, record);
  assert_false(ok);
  expect(sorter_error(s), "TMPDIR");
  sorter_free(s);
  if (before) setenv("TMPDIR", before, 1);
  else unsetenv("TMPDIR");
  free(before);
}

/* ---- Chrome's format --------------------------------------------------------------------------------------------- */

static void chrome_writes_intervals_arrows_counters(void **state) {
  Maker m = make();
  device(&m, "NVIDIA H200", 132);
  one_step(&m);
  copy(&m, COPY_HOST_TO_DEVICE, true, 4096, 1, 3, 50);
  memory(&m, 5, 1 << 20, 1 << 20);
  memory(&m, 95, -(1 << 20), 0);
  note_at(&m, 50, "a \"note\" </script>");
  char *text = show(&m, view_chrome, &(ViewOptions){.title = "t"});
  expect(text, "{\"ph\":\"X\",\"name\":\"step\",\"cat\":\"range,nvtx\",\"pid\":");
  expect(text, "\"dur\":100.000,\"args\":{}}");
  expect(text, "{\"ph\":\"X\",\"name\":\"add\",\"cat\":\"kernel\",\"pid\":5000001,\"tid\":5000001,");
  expect(text, "\"args\":{\"correlation\":1,\"grid\":[256,1,1],\"block\":[128,1,1],\"registers per "
               "thread\":32,\"shared memory\":1024,\"function\":\"add\",\"device\":0,\"stream\":7}}");
  expect(text, "\"bytes\":4096,\"GB/s\":2.048");
  expect(text, "{\"ph\":\"C\",\"name\":\"memory in use\",\"pid\":5000001,");
  expect(text, "\"args\":{\"bytes\":1048576}}");
  expect(text, "a \\\"note\\\" \\u003c/script>");
  expect(text, "\"name\":\"GPU 0 NVIDIA H200\"");
  assert_int_equal(occurrences(text, "\"ph\":\"s\""), 2);
  assert_int_equal(occurrences(text, "\"ph\":\"f\""), 2);
  free(text);
  done(&m);
}

static void chrome_gives_what_overlaps_a_lane_of_its_own(void **state) {
  Maker m = make();
  kernel(&m, "long", 0, 100, 0);
  kernel(&m, "within", 20, 40, 0); /* of the same stream, as in a graph: beside, not inside */
  kernel(&m, "next", 100, 110, 0); /* back in the first lane */
  range(&m, "outer", 0, 50);
  range(&m, "longer", 10, 50.5); /* outlasts it by 500 ns: cut */
  range(&m, "crossing", 45, 80); /* not nested at all */
  char *text = show(&m, view_chrome, NULL);
  assert_int_equal(occurrences(text, "\"name\":\"stream 7 (2)\""), 1);
  assert_int_equal(occurrences(text, "\"name\":\"main thread (2)\"") + occurrences(text, "\"name\":\"thread 100 (2)\""),
                   1);
  const char *longer = strstr(text, "\"name\":\"longer\"");
  assert_non_null(longer);
  assert_non_null(strstr(longer, "\"dur\":40.000"));
  free(text);
  done(&m);
}

/* A million events go through in little memory. The sanitizers' own memory is not what is measured. */
#if defined(__SANITIZE_ADDRESS__)
enum { MANY = 60000, ROOM_MIB = 4000 };
#else
enum { MANY = 500000, ROOM_MIB = 110 };
#endif
static void chrome_streams_a_million_events(void **state) {
  Maker m = make();
  range(&m, "all", 0, 10.0 * MANY);
  for (int i = 0; i < MANY; i++) {
    launch(&m, 10.0 * i, 10.0 * i + 4, (uint64_t)i + 1);
    kernel(&m, i % 3 ? "a" : "b", 10.0 * i + 5, 10.0 * i + 8, (uint64_t)i + 1);
  }
  assert_int_equal(trace_close(m.w, NULL), 0);
  m.w = NULL;
  const char *reason;
  char buffer[300], why[300], path[80];
  TraceReader *r = trace_open(m.path, &reason, buffer);
  assert_non_null(r);
  snprintf(path, sizeof path, "%s.json", m.path);
  FILE *out = fopen(path, "w");
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  assert_int_equal(view_chrome(r, out, NULL, why), 0);
  getrusage(RUSAGE_SELF, &after);
  fclose(out);
  assert_true(after.ru_maxrss - before.ru_maxrss < ROOM_MIB * 1024l);
  out = fopen(path, "r");
  char line[1024];
  int64_t intervals = 0, arrows = 0;
  while (fgets(line, sizeof line, out))
    intervals += strncmp(line, "{\"ph\":\"X\"", 9) == 0, arrows += strncmp(line, "{\"ph\":\"f\"", 9) == 0;
  assert_int_equal(intervals, 2 * MANY + 1);
  assert_int_equal(arrows, MANY);
  fclose(out);
  unlink(path);
  out = fopen("/dev/null", "w");
  assert_int_equal(view_table(r, out, NULL, why), 0);
  assert_int_equal(view_html(r, out, NULL, why), 0);
  assert_int_equal(view_advice(r, out, NULL, why), 0);
  getrusage(RUSAGE_SELF, &after);
  assert_true(after.ru_maxrss - before.ru_maxrss < ROOM_MIB * 1024l);
  fclose(out);
  trace_reader_free(r);
  done(&m);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static void page_holds_the_events(void **state) {
  Maker m = make();
  one_step(&m);
  note_at(&m, 50, "</script><b>");
  char *text = show(&m, view_html, NULL);
  expect(text, "\"kept\":6,\"dropped\":0");
  expect(text, "\\u003c/script>\\u003cb>");
  assert_int_equal(occurrences(text, "</script>"), 2); /* the data's and the script's ends */
  expect_no(text, "@DATA@");
  expect_no(text, "http://");
  expect_no(text, "https://");
  free(text);
  done(&m);
}

/* Functions of a program without a GPU: what neighbouring samples have in common ran on between them. */
static void page_shows_samples(void **state) {
  Maker m = make();
  const char *const add[] = {"add", "work", "main"}, *const mul[] = {"mul", "work", "main"},
                    *const rest[] = {"rest", "main"};
  sample_at(&m, 2000, mul, 3, 1000000); /* they need not come in order */
  sample_at(&m, 1000, add, 3, 1000000);
  sample_at(&m, 3100, mul, 3, 1000000);  /* a timer that was late by a tenth */
  sample_at(&m, 9000, rest, 2, 1000000); /* the thread waited */
  char *text = show(&m, view_html, NULL);
  expect(text, "\"length\":9000000");
  expect(text, "\"kept\":6,\"dropped\":0");
  /* track, ns since the last one's start, ns, name, depth, kind, detail, correlation */
  expect(text, "\"events\":[\n0,0,1000000,0,2,8,0,0,\n0,1000000,2100000,1,2,8,0,0,\n0,-1000000,3100000,2,1,8,0,0,\n"
               "0,0,3100000,3,0,8,0,0,\n0,8000000,1000000,4,1,8,0,0,\n0,0,1000000,3,0,8,0,0]");
  expect(text, "\"names\":[\n\"add\",\n\"mul\",\n\"work\",\n\"main\",\n\"rest\"]");
  expect(text, "\"name\":\"thread 100: CPU samples\"");
  free(text);
  done(&m);
}

static void page_leaves_out_the_shortest_and_says_so(void **state) {
  Maker m = make();
  enum { SHORT = 400100 };
  for (int i = 0; i < SHORT; i++) kernel(&m, "short", 2.0 * i, 2.0 * i + 1, 0);
  for (int i = 0; i < 100; i++) range(&m, "long", 5000.0 * i, 5000.0 * i + 4000);
  char *text = show(&m, view_html, NULL);
  const char *tail = strstr(text, ",\n\"kept\":");
  assert_non_null(tail);
  long long kept = 0, dropped = 0, ns = 0;
  assert_int_equal(sscanf(tail, ",\n\"kept\":%lld,\"dropped\":%lld,\"dropped_ns\":%lld", &kept, &dropped, &ns), 3);
  assert_int_equal(kept + dropped, SHORT + 100);
  assert_true(kept <= 400000 && kept >= 390000); /* all of the long ones, and short ones evenly */
  assert_int_equal(occurrences(text, ",6,0,0"), 100);
  assert_int_equal(ns, dropped * 1000);
  free(text);
  done(&m);
}

/* ---- flame graphs ------------------------------------------------------------------------------------------------ */

static void folded_stacks_of_samples(void **state) {
  Maker m = make();
  sample(&m, (const char *const[]){"gemm", "forward", "main"}, 3, 1000);
  sample(&m, (const char *const[]){"gemm", "forward", "main"}, 3, 2000);
  sample(&m, (const char *const[]){"forward", "main"}, 2, 500);
  sample(&m, (const char *const[]){"a;b\nc", "main"}, 2, 7);
  TraceEvent thread = event(&m, TRACE_THREAD, "python3", 0, 0);
  trace_event(m.w, &thread);
  char *text = show(&m, view_folded, NULL);
  assert_string_equal(text, "python3;main;a:b c 7\npython3;main;forward 500\npython3;main;forward;gemm 3000\n");
  free(text);
  text = show(&m, view_flame, &(ViewOptions){.title = "a & b"});
  expect(text, "<title>gemm\n3.000us, 85.54%</title>");
  expect(text, "<title>forward\n3.500us, 99.80%; 0.500us without what it calls</title>");
  expect(text, "a &amp; b");
  assert_non_null(strstr(text, "</svg>\n"));
  free(text);
  done(&m);
}

static void functions_of_samples(void **state) {
  Maker m = make();
  trace_close(m.w, NULL), m.w = NULL;
  char *text = show(&m, view_functions, NULL);
  expect(text, "no CPU time was sampled");
  free(text);
  done(&m);
  m = make();
  sample(&m, (const char *const[]){"gemm", "forward", "main"}, 3, 3000);
  sample(&m, (const char *const[]){"forward", "forward", "forward", "main"}, 4, 500); /* recursion counts once */
  sample(&m, (const char *const[]){"_PyEval_EvalFrameDefault", "main"}, 2, 500);
  text = show(&m, view_functions, NULL);
  expect(text, "                gemm        75.00%       3.000us        75.00%       3.000us\n");
  expect(text, "             forward        12.50%       0.500us        87.50%       3.500us\n");
  expect(text, "                main         0.00%       0.000us       100.00%       4.000us\n");
  expect(text, "CPU time total: 4.000us, by 3 samples");
  expect(text, "of Python only the interpreter is seen");
  free(text);
  text = show(&m, view_functions, &(ViewOptions){.rows = 2});
  expect(text, "2 of 4 functions\n");
  free(text);
  text = show(&m, view_functions, &(ViewOptions){.json = true, .rows = 1});
  expect(text, "\"total_ns\": 3000}],\n \"python_functions\": [],\n \"processes\": [");
  expect(text, "{\"cpu_ns\": 4000, \"samples\": 3, \"function_count\": 4,\n \"functions\": [\n  {\"name\": \"gemm\", "
               "\"self_ns\": 3000, \"total_ns\": 3000}],");
  free(text);
  done(&m);
  m = make();
  sample(&m, (const char *const[]){"gemm", "main"}, 2, 4000);
  sample(&m,
         (const char *const[]){"x_add", "_PyEval_EvalFrameDefault", "python: inner (a.py)", "_PyEval_EvalFrameDefault",
                               "python: outer (a.py)", "main"},
         6, 4000);
  text = show(&m, view_functions, NULL);
  expect(text, "     Python function  ");
  expect(text, "        inner (a.py)        50.00%       4.000us        50.00%       4.000us\n        outer (a.py)     "
               "    0.00%       0.000us        50.00%       4.000us\n");
  expect(text, "               x_add        50.00%       4.000us        50.00%       4.000us\n");
  expect_no(text, "of Python only");
  free(text);
  done(&m);
}

static void folded_gpu_time_by_range(void **state) {
  Maker m = make();
  one_step(&m);
  range(&m, "run", -10, 200);
  kernel(&m, "stray", 150, 151, 0);
  char *text = show(&m, view_folded_gpu, NULL);
  assert_string_equal(text, "run;step;add 30000\nrun;step;mul 12000\nstray 1000\n");
  free(text);
  text = show(&m, view_flame_gpu, NULL);
  expect(text, "GPU time by range and kernel");
  free(text);
  done(&m);
}

/* ---- traces that nobody would write ------------------------------------------------------------------------------ */

static uint64_t random_state = 1;
static uint64_t random_bits(void) {
  return random_state = random_state * 6364136223846793005u + 1442695040888963407u,
         random_state >> 16 ^ random_state << 20;
}
static int64_t some(int64_t n) { return (int64_t)(random_bits() % (uint64_t)n); }

static TraceEvent any_event(Maker *m, bool wild) {
  static const char *const names[] = {
      "",       "a", "void f<int>(float)", "<<<(((", "\xff\xfe\x80", "\"quoted\" \\ </script>", "ncclDevKernel", "gemm",
      "x;y\nz", "λ", "dataloader"};
  TraceEvent e = {.kind = (TraceKind)(some(TRACE_KINDS - 2) + 2), .name = trace_string(m->w, names[some(11)])};
  e.start = START + some(3000), e.end = e.start + (some(4) ? some(400) : 0), e.thread = (uint32_t)(MAIN + some(3));
  e.correlation = (uint64_t)some(40), e.device = some(3) ? (uint32_t)some(2) : TRACE_CPU_DEVICE,
  e.stream = (uint64_t)(7 + some(3));
  if (wild && !some(4)) e.start = (int64_t)random_bits(), e.end = (int64_t)random_bits();
  if (wild && !some(8))
    e.device = (uint32_t)random_bits(), e.stream = random_bits(), e.thread = (uint32_t)random_bits(),
    e.correlation = random_bits();
  double value = wild && !some(3) ? (double[]){1e308, -1e308, 0.0 / 0.0, 1.0 / 0.0}[some(4)] : (double)some(1000000);
  int64_t amount = wild && !some(3) ? (int64_t)random_bits() : some(100000);
  switch (e.kind) {
    case TRACE_CALL: e.call.kind = (TraceCallKind)some(wild ? 300 : 9); break;
    case TRACE_KERNEL:
      e.kernel.grid[0] = e.kernel.block[0] = (uint32_t)random_bits(),
      e.kernel.grid[1] = e.kernel.grid[2] = (uint32_t)some(3);
      break;
    case TRACE_COPY:
      e.copy.kind = (TraceCopyKind)some(wild ? 300 : 6), e.copy.pageable = some(2), e.copy.bytes = amount;
      break;
    case TRACE_FILL: e.fill.bytes = amount; break;
    case TRACE_RANGE: e.range.id = (uint64_t)some(1000), e.range.origin = (TraceRangeOrigin)some(3); break;
    case TRACE_METRIC: e.metric.range = (uint64_t)some(1000), e.metric.value = value; break;
    case TRACE_WORK: e.work.flops = value, e.work.bytes = value, e.work.shapes = e.name; break;
    case TRACE_MEMORY:
      e.memory.bytes = amount - 50000, e.memory.in_use = some(2) ? -1 : amount, e.memory.pinned_host = some(2);
      break;
    case TRACE_SAMPLE:
      e.sample.depth = (uint32_t)some(4), e.sample.is_symbolic = true, e.sample.weight = some(1000),
      e.sample.stack[0] = e.sample.stack[1] = e.sample.stack[2] = e.name;
      break;
    case TRACE_LOST: e.lost.count = some(10); break;
    case TRACE_DEVICE: e.device_.multiprocessors = (int)some(200), e.device_.bandwidth = e.device_.flops = value; break;
    default: break;
  }
  return e;
}

static long long figure_of(const char *json, const char *key) {
  const char *at = strstr(json, key);
  return at ? atoll(at + strlen(key)) : -1;
}

static void any_trace_has_all_views(void **state) {
  static View *const views[] = {view_table,  view_chrome, view_html,   view_folded_gpu, view_flame_gpu,
                                view_folded, view_flame,  view_advice, view_advice};
  for (int round = 0; round < 120; round++) {
    Maker m = make();
    bool wild = round % 2;
    for (int i = 0, n = (int)some(120); i < n; i++) {
      TraceEvent e = any_event(&m, wild);
      trace_event(m.w, &e);
    }
    assert_int_equal(trace_close(m.w, NULL), 0);
    m.w = NULL;
    for (size_t v = 0; v < sizeof views / sizeof *views; v++) {
      const char *reason = NULL;
      char buffer[300], why[300] = "", *text = NULL;
      size_t size = 0;
      TraceReader *r = trace_open(m.path, &reason, buffer);
      assert_non_null(r);
      FILE *out = open_memstream(&text, &size);
      int status = views[v](r, out, &(ViewOptions){.json = v != sizeof views / sizeof *views - 1, .shapes = true}, why);
      fclose(out);
      /* the only things that may be said against it */
      if (status) assert_true(strstr(why, "no GPU ran") || strstr(why, "no samples"));
      if (v == 7 && !wild) { /* the shares make up the whole, whatever overlapped */
        long long span = figure_of(text, "\"span_ns\": "),
                  parts = figure_of(text, "\"compute_ns\": ") + figure_of(text, "\"memory_ns\": ") +
                          figure_of(text, "\"overhead_ns\": ") + figure_of(text, "\"data_ns\": ") +
                          figure_of(text, "\"network_ns\": ");
        if (strstr(text, "\"gpu\": true")) {
          assert_int_equal(parts, span);
          assert_int_equal(figure_of(text, "\"busy_ns\": ") + figure_of(text, "\"idle_ns\": "), span);
        }
      }
      free(text);
      trace_reader_free(r);
    }
    done(&m);
  }
}

/* ---- a larger run, for other programs to look at ----------------------------------------------------------------- */

static void made_up_run(Maker *m) {
  static const char *const kernels[] = {"void at::native::vectorized_elementwise_kernel<4, "
                                        "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
                                        "ampere_sgemm_128x64_tn",
                                        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
                                        "at::native::MeanOps<float, float, float, float> > >(int)",
                                        "relu_kernel"};
  TraceEvent thread = event(m, TRACE_THREAD, "python3", 0, 0), worker = event(m, TRACE_THREAD, "autograd", 0, 0);
  trace_event(m->w, &thread);
  worker.thread = WORKER, trace_event(m->w, &worker);
  device(m, "NVIDIA H200", 132);
  uint64_t n = 1;
  double gpu = 0;
  int64_t in_use = 0;
  for (int s = 0; s < 1500; s++) {
    double at = 2000.0 * s, t = at + 20;
    for (int half = 0; half < 2; half++) {
      uint32_t who = half ? WORKER : MAIN;
      double begin = t;
      for (int k = 0; k < 12; k++, n++) {
        double launched = t + 3, cost = 4 + (double)((n * 7919) % 13) / 4,
               took = 2 + (double)((n * 104729) % 97) / 3 * (k % 4 == 1 ? 2 : 0.5);
        call_on(m, who, CALL_LAUNCH, "cudaLaunchKernel", launched, launched + cost, n);
        range_on(m, who, k % 4 == 1 ? "aten::addmm" : k % 4 == 2 ? "aten::mean" : "aten::add", t, launched + cost + 2);
        if (gpu < launched + cost) gpu = launched + cost + 1;
        kernel_on(m, 0, k % 6 == 5 ? 20 : 7, kernels[k % 4], gpu, gpu + took, n);
        gpu += took + 0.8, t = launched + cost + 6;
      }
      range_on(m, who, half ? "backward" : "forward", begin, t);
      t += 30;
    }
    if (s % 3 == 0) memory(m, t, 1 << 22, in_use += 1 << 22);
    if (s % 100 == 99) memory(m, t + 1, -in_use, 0), in_use = 0;
    call(m, CALL_COPY, "cudaMemcpyAsync", t, t + 6, n);
    if (gpu < t + 6) gpu = t + 7;
    copy(m, COPY_DEVICE_TO_HOST, true, 4, gpu, gpu + 1.5, n++);
    call(m, CALL_SYNC, "cudaStreamSynchronize", t + 6, gpu + 4, n++);
    gpu += 1.5;
    range(m, "train step", at, gpu + 40 < at + 1990 ? gpu + 40 : at + 1990);
    if (s % 10 == 0)
      sample_at(m, t,
                (const char *const[]){"cudaLaunchKernel", "at::native::add", "python: step (train.py)",
                                      "python: <module> (train.py)"},
                4, 10000000),
          sample_at(
              m, t + 4000,
              (const char *const[]){"cudaStreamSynchronize", "python: step (train.py)", "python: <module> (train.py)"},
              3, 4000000);
  }
  note_at(m, 400000, "the clock of the GPU was changed while the run went on");
}

typedef struct Written {
  const char *name;
  View *view;
  bool json;
} Written;
static int write_trace(const char *dir, const char *prefix, void (*fill)(Maker *), const Written *views, size_t n) {
  Maker m = {0};
  char path[4096], why[300];
  const char *reason = "";
  snprintf(path, sizeof path, "%s/%srun.trace", dir, prefix);
  if (!(m.w = trace_create(path, "python3 train.py --epochs 3"))) return perror(path), 1;
  fill(&m);
  trace_close(m.w, NULL);
  TraceReader *r = trace_open(path, &reason, why);
  if (!r) return fprintf(stderr, "%s\n", reason), 1;
  int status = 0;
  for (size_t i = 0; i < n && !status; i++) {
    snprintf(path, sizeof path, "%s/%s%s", dir, prefix, views[i].name);
    FILE *out = fopen(path, "w");
    if (!out || views[i].view(r, out, &(ViewOptions){.json = views[i].json}, why))
      status = 1, fprintf(stderr, "%s: %s\n", path, why);
    if (out) fclose(out);
  }
  trace_reader_free(r);
  return status;
}

static void random_run(Maker *m) {
  for (int i = 0; i < 100; i++) {
    TraceEvent e = any_event(m, true);
    trace_event(m->w, &e);
  }
}

static int write_views(const char *dir) {
  static const Written views[] = {{"table.txt", view_table, false},       {"table.json", view_table, true},
                                  {"chrome.json", view_chrome, false},    {"page.html", view_html, false},
                                  {"cpu.folded", view_folded, false},     {"cpu.svg", view_flame, false},
                                  {"gpu.folded", view_folded_gpu, false}, {"gpu.svg", view_flame_gpu, false},
                                  {"advice.txt", view_advice, false},     {"advice.json", view_advice, true}};
  static const Written random_views[] = {{"table.json", view_table, true},
                                         {"chrome.json", view_chrome, false},
                                         {"page.html", view_html, false},
                                         {"advice.json", view_advice, true}};
  int status = write_trace(dir, "", made_up_run, views, sizeof views / sizeof *views);
  for (int i = 0; i < 20 && !status; i++) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "random-%d-", i);
    status = write_trace(dir, prefix, random_run, random_views, sizeof random_views / sizeof *random_views);
  }
  return status;
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "--write")) return write_views(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table_self_and_total_by_nesting),
      cmocka_unit_test(table_sorts_as_asked),
      cmocka_unit_test(table_takes_any_nesting),
      cmocka_unit_test(table_joins_by_correlation),
      cmocka_unit_test(table_without_a_gpu_has_no_cuda_columns),
      cmocka_unit_test(table_groups_by_shapes_only_when_asked),
      cmocka_unit_test(table_of_nothing),
      cmocka_unit_test(truncated_trace_is_shown_and_said),
      cmocka_unit_test(repeated_and_unknown_losses_are_said),
      cmocka_unit_test(names_keep_to_their_line),
      cmocka_unit_test(functions_of_samples),
      cmocka_unit_test(names_lose_what_says_little_first),
      cmocka_unit_test(names_that_differ_stay_different),
      cmocka_unit_test(sorter_is_stable_in_memory_and_through_a_file),
      cmocka_unit_test(sorter_says_that_it_cannot_write),
      cmocka_unit_test(chrome_writes_intervals_arrows_counters),
      cmocka_unit_test(chrome_gives_what_overlaps_a_lane_of_its_own),
      cmocka_unit_test(chrome_streams_a_million_events),
      cmocka_unit_test(page_holds_the_events),
      cmocka_unit_test(page_shows_samples),
      cmocka_unit_test(page_leaves_out_the_shortest_and_says_so),
      cmocka_unit_test(folded_stacks_of_samples),
      cmocka_unit_test(folded_gpu_time_by_range),
      cmocka_unit_test(any_trace_has_all_views),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
