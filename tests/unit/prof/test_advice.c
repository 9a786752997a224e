/* Tests of advice on a trace (src/prof/view/advice.c, measure.c): what it finds, and what it leaves alone. */
#include "test_views_kit.h"

/* A training loop whose step reads its loss back: a step is 1000 us, 20 launches of 6 us for kernels of 2 us, then a
 * copy of 4 bytes and a wait. */
static void training_loop(Maker *m, int steps) {
  uint64_t n = 1;
  device(m, "NVIDIA H200", 132);
  for (int s = 0; s < steps; s++) {
    double at = 1000.0 * s, t = at;
    for (int k = 0; k < 20; k++, n++, t += 40) {
      launch(m, t, t + 6, n);
      kernel(m, k % 2 ? "sm90_gemm" : "relu", t + 6, t + 8, n);
    }
    call(m, CALL_COPY, "cudaMemcpyAsync", at + 810, at + 815, n);
    copy(m, COPY_DEVICE_TO_HOST, true, 4, at + 816, at + 818, n++);
    call(m, CALL_SYNC, "cudaStreamSynchronize", at + 815, at + 825, n++);
    range(m, "step", at, at + 950);
  }
}

static void advice_names_the_print_in_the_training_loop(void **state) {
  Maker m = make();
  training_loop(&m, 10);
  char *text = show(&m, view_advice, NULL);
  /* From 0 to 9818: 200 kernels of 2 us and 10 copies of 2 us are 420 us; of each step 6 us to the first kernel, 19
   * times 38, and 48 to the copy. */
  expect(text, "What bounds this run: overhead (96% of 9.818ms)\n");
  expect(text, "    2.0%  compute: 100 kernels that compute (matrix products, convolutions, attention)\n");
  expect(text, "    2.0%  memory bandwidth: 100 kernels that move memory, copies on the GPU, fills\n");
  expect(text,
         "The CPU stood still for the GPU: cudaStreamSynchronize after cudaMemcpyAsync, 10 times, 100.000us in all\n");
  expect(text, "once every 20 launches\n     in range \"step\"\n");
  expect(text, "cudaMemcpyAsync copied device to host (4 B at most): a number read back, as print(tensor), "
               "tensor.item() or float(tensor) do\n");
  /* The wait ends at 825, the next step's first kernel begins at 1006: 181 us nine times. */
  expect(
      text,
      "9 times the GPU had nothing left to do by then, and idled 1.629ms until it got work again (16.6% of the run)\n");
  expect(text, "200 of 200 kernels (100%) took less than the call that launched them\n");
  expect(text, "mean 2.000us on the GPU, 6.000us in the launching call; all of them 400.000us against 1.200ms\n");
  expect(text, "The GPU idled 95.7% of the run");
  free(text);
  text = show(&m, view_advice, &(ViewOptions){.json = true});
  expect(text, "\"bound\": \"overhead\"");
  expect(text, "\"kind\": \"synchronization\"");
  expect(text, "\"call\": \"cudaStreamSynchronize\", \"range\": \"step\", \"after_copy\": \"cudaMemcpyAsync\", "
               "\"direction\": \"device to host\", \"bytes\": 4, \"count\": 10, \"total_ns\": 100000, \"longest_ns\": "
               "10000, \"idle_after_ns\": 1629000");
  free(text);
  done(&m);
}

static void advice_leaves_a_good_run_alone(void **state) {
  Maker m = make();
  device(&m, "NVIDIA H200", 132);
  for (int i = 0; i < 100; i++) { /* the CPU runs ahead; two kernels share the time, one wait at the end */
    launch(&m, 5.0 * i, 5.0 * i + 3, (uint64_t)i + 1);
    kernel(&m,
           i % 3 == 0   ? "gemm_a"
           : i % 3 == 1 ? "gemm_b"
                        : "gemm_c",
           10 + 100.0 * i, 110 + 100.0 * i, (uint64_t)i + 1);
  }
  call(&m, CALL_SYNC, "cudaDeviceSynchronize", 505, 10015, 999);
  char *text = show(&m, view_advice, NULL);
  expect(text, "What bounds this run: compute (100% of 10.010ms)\n");
  expect(text, "Nothing else stands out.\n");
  free(text);
  done(&m);
}

static void advice_on_input_copies(void **state) {
  Maker m = make();
  /* Each step: 300 us of a copy from pageable memory after a gap of 100 us in which the program reads a file, then a
   * kernel of 96 us. */
  for (int i = 0; i < 10; i++) {
    double t = 500.0 * i;
    uint64_t n = (uint64_t)i * 2 + 1;
    call(&m, CALL_COPY_SYNC, "cudaMemcpy", t + 95, t + 400, n);
    copy(&m, COPY_HOST_TO_DEVICE, true, 3000000, t + 100, t + 400, n);
    launch(&m, t + 400, t + 404, n + 1);
    kernel(&m, "conv2d", t + 404, t + 500, n + 1);
  }
  char *text = show(&m, view_advice, NULL);
  /* From 95 to 5000: copies alone 10 * 300, gaps 5 + 9 * 100, all before a copy from the host. */
  expect(text, "What bounds this run: data loading (80% of 4.905ms)\n");
  expect(text, "905.000us in gaps that ended with input from the host, 3.000ms in copies beside which no kernel ran");
  expect(text, "Copies could overlap with kernels: 3.000ms of copies between host and GPU ran while no kernel did "
               "(61.2% of the run)\n");
  expect(text, "to the GPU: 10 copies, 28.6 MiB, 3.000ms (10 GB/s)\n");
  expect(text, "10 copies had host memory that is not page-locked: 28.6 MiB in 3.000ms\n");
  expect(text, "The CPU stood still for the GPU: cudaMemcpy, 10 times, 3.050ms in all\n");
  expect(text, "it copied host to device (2.9 MiB at most)\n");
  expect(text, "    0.8%  overhead: no work for the GPU: 20 gaps; 10 launches, 40.000us in the launching calls\n");
  expect_no(text, "One kernel"); /* of one */
  free(text);
  done(&m);
}

static void advice_on_network_and_overlap(void **state) {
  Maker m = make();
  /* 0..100 matrix product; 50..250 NCCL in another stream: 150 alone; then 300..310 a small kernel, after a gap of 50.
   */
  kernel_on(&m, 0, 7, "sm90_gemm", 0, 100, 0);
  kernel_on(&m, 0, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 50, 250, 0);
  kernel_on(&m, 0, 7, "relu", 240, 260, 0);
  kernel_on(&m, 0, 7, "relu", 310, 320, 0);
  char *text = show(&m, view_advice, &(ViewOptions){.json = true});
  /* Of 320: compute 100, network 100..240 = 140, memory 20 + 10, overhead 50. */
  expect(text, "\"bound\": \"network\"");
  expect(text, "\"bounds\": {\"compute_ns\": 100000, \"memory_ns\": 30000, \"overhead_ns\": 50000, \"data_ns\": 0, "
               "\"network_ns\": 140000}");
  free(text);
  done(&m);
}

static void advice_without_a_gpu(void **state) {
  Maker m = make();
  call(&m, CALL_LAUNCH, "nereid_launch", 0, 500, 1);
  call(&m, CALL_COMPILE, "compile", 10, 400, 0);
  kernel_on(&m, TRACE_CPU_DEVICE, 0, "softmax", 400, 500, 1);
  char *text = show(&m, view_advice, NULL);
  expect(text, "What bounds this run: overhead (80% of 500.000us)\n");
  expect(text, "not in a kernel; of it 390.000us in compilation\n");
  expect(text, "Kernels were compiled while the run went on: 1, 390.000us (78.0% of the run)\n");
  free(text);
  done(&m);
}

static void advice_leaves_start_up_out(void **state) {
  Maker m = make();
  kernel(&m, "init", 0, 10, 0);
  for (int i = 0; i < 20; i++) kernel(&m, i % 2 ? "relu" : "gelu", 50000 + 10 * i, 50010 + 10 * i, 0);
  char *text = show(&m, view_advice, NULL);
  expect(text, "What bounds this run: memory bandwidth (100% of 200.000us)\n");
  expect(text, "(a start-up of 50.000ms is left out)\n");
  free(text);
  done(&m);
}

static void advice_leaves_loading_of_libraries_out(void **state) {
  Maker m = make();
  for (int i = 0; i < 20; i++) {
    /* the third comes too late for start-up */
    if (i == 1 || i == 3 || i == 15) call(&m, CALL_OTHER, "cuLibraryLoadData", 10 * i, 10 * i + 2, 0);
    kernel(&m, i % 2 ? "relu" : "gelu", 10 * i + 2, 10 * i + 10, 0);
  }
  char *text = show(&m, view_advice, &(ViewOptions){.json = true});
  /* from 32 to 200: 16 gaps of 2 */
  expect(text, "\"span_ns\": 168000, \"devices\": 1, \"startup_ns\": 30000, \"busy_ns\": 136000, \"idle_ns\": 32000");
  free(text);
  done(&m);
}

static void advice_says_what_the_cpu_did_in_gaps(void **state) {
  Maker m = make();
  /* Each 100 us: a kernel of 40, launched at 90 .. 96 while the GPU has been idle since 40; before that cudaFree from
   * 50 to 80, in "cleanup". */
  for (int i = 0; i < 20; i++) {
    double t = 100.0 * i;
    kernel(&m, i % 2 ? "a" : "b", t, t + 40, (uint64_t)i + 1);
    call(&m, CALL_FREE, "cudaFree", t + 50, t + 80, 500 + (uint64_t)i);
    range(&m, "cleanup", t + 45, t + 85); /* not open all the while */
    launch(&m, t + 90, t + 96, (uint64_t)i + 2);
  }
  range(&m, "loop", -5, 2500);
  char *text = show(&m, view_advice, &(ViewOptions){.json = true});
  /* 19 gaps of 60: 30 in cudaFree, 6 in the launch, 4 until the GPU began, 20 in the program. */
  expect(text, "\"gaps\": 19, \"idle_ns\": 1140000, \"longest_ns\": 60000, \"meanwhile\": [{\"what\": \"cudaFree\", "
               "\"range\": \"loop\", \"ns\": 570000}, "
               "{\"what\": \"the program's own code, outside of CUDA calls\", \"range\": \"loop\", \"ns\": 380000}, "
               "{\"what\": \"cudaLaunchKernel\", \"range\": \"loop\", \"ns\": 114000}, "
               "{\"what\": \"the work was launched, the GPU had not begun it\", \"range\": \"loop\", \"ns\": 76000}]");
  expect(text, "\"kind\": \"allocation\", \"cost_ns\": 570000");
  /* 20 each until the next kernel */
  expect(text, "\"count\": 19, \"total_ns\": 570000, \"longest_ns\": 30000, \"idle_after_ns\": 380000");
  free(text);
  done(&m);
}

static void advice_over_several_gpus(void **state) {
  Maker m = make();
  kernel_on(&m, 0, 7, "gemm", 0, 100, 0); /* busy all the time */
  kernel_on(&m, 1, 7, "relu", 0, 30, 0);  /* 30, then idle, then 20, then idle to the end */
  kernel_on(&m, 1, 7, "relu", 60, 80, 0);
  char *text = show(&m, view_advice, &(ViewOptions){.json = true});
  expect(text, "\"span_ns\": 200000, \"devices\": 2");
  expect(text, "\"busy_ns\": 150000, \"idle_ns\": 50000");
  expect(text,
         "{\"compute_ns\": 100000, \"memory_ns\": 50000, \"overhead_ns\": 50000, \"data_ns\": 0, \"network_ns\": 0}");
  free(text);
  done(&m);
}

static void advice_uses_the_roofline_where_work_is_known(void **state) {
  Maker m = make();
  device(&m, "NVIDIA H200", 132); /* 67 Tflop/s by 4.8 TB/s: 14 flop a byte */
  for (int i = 0; i < 2; i++) {
    launch(&m, 100 * i, 100 * i + 5, (uint64_t)i + 1);
    kernel(&m, i ? "my_gemm" : "my_norm", 100 * i + 10, 100 * i + 90, (uint64_t)i + 1);
    /* against what the names say */
    TraceEvent work = {.kind = TRACE_WORK, .correlation = (uint64_t)i + 1, .work = {i ? 1e6 : 1e8, 1e6, true, 0}};
    trace_event(m.w, &work);
  }
  char *text = show(&m, view_advice, &(ViewOptions){.json = true});
  expect(text, "\"by_name\": false, \"bounds\": {\"compute_ns\": 80000, \"memory_ns\": 80000,");
  free(text);
  done(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(advice_names_the_print_in_the_training_loop),
      cmocka_unit_test(advice_leaves_a_good_run_alone),
      cmocka_unit_test(advice_on_input_copies),
      cmocka_unit_test(advice_on_network_and_overlap),
      cmocka_unit_test(advice_without_a_gpu),
      cmocka_unit_test(advice_leaves_start_up_out),
      cmocka_unit_test(advice_leaves_loading_of_libraries_out),
      cmocka_unit_test(advice_says_what_the_cpu_did_in_gaps),
      cmocka_unit_test(advice_over_several_gpus),
      cmocka_unit_test(advice_uses_the_roofline_where_work_is_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
