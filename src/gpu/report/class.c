/* What the operations of the lane IR are as machine instructions: their class, and about how many ptxas makes of one.
 * Constants, parameters and the halves of 64-bit registers are operands, no instructions. Quotients and the like are
 * sequences; their numbers are those of sm_90.
 */
#include "gpu/report/report.h"

const char *const gpu_class_names[GC_COUNT] = {
#define X(id, name) [GC_##id] = name,
    GPU_CLASSES(X)
#undef X
};

static GpuClass arithmetic(LaneKind k) {
  switch (k) {
    case LK_F32: return GC_FP32;
    case LK_F16:
    case LK_BF16:
    case LK_F16X2:
    case LK_BF16X2: return GC_FP16;
    case LK_F64: return GC_FP64;
    default: return GC_INTEGER;
  }
}

GpuClass gpu_op_class(const LaneOp *op) {
  bool shared = op->space == SPACE_SHARED;
  switch (op->code) {
    case LANE_LD: return shared ? GC_LOAD_SHARED : GC_LOAD_GLOBAL;
    case LANE_ST: return shared ? GC_STORE_SHARED : GC_STORE_GLOBAL;
    case LANE_LDMATRIX: return GC_LOAD_SHARED;
    case LANE_MMA:
    case LANE_WGMMA:
    case LANE_TMEM_MMA: return GC_TENSOR;
    case LANE_TMEM_LD: return GC_LOAD_SHARED;
    case LANE_TMEM_ST: return GC_STORE_SHARED;
    case LANE_TENSOR_LOAD:
    case LANE_TENSOR_STORE:
    case LANE_TENSOR_RED:
    case LANE_CP_ASYNC: return GC_COPY;
    case LANE_ATOM: return GC_ATOMIC;
    case LANE_SHFL:
    case LANE_VOTE:
    case LANE_REDUX: return GC_SHUFFLE;
    case LANE_MBAR_INIT:
    case LANE_MBAR_ARRIVE:
    case LANE_MBAR_EXPECT:
    case LANE_MBAR_WAIT:
    case LANE_FENCE_MBAR:
    case LANE_BULK_COMMIT:
    case LANE_BULK_WAIT:
    case LANE_SETMAXNREG:
    case LANE_BARRIER_ARRIVE:
    case LANE_BARRIER:
    case LANE_FENCE:
    case LANE_FENCE_PROXY:
    case LANE_WGMMA_FENCE:
    case LANE_WGMMA_COMMIT:
    case LANE_WGMMA_WAIT:
    case LANE_TMEM_COMMIT:
    case LANE_TMEM_ALLOC:
    case LANE_TMEM_RELINQUISH:
    case LANE_TMEM_DEALLOC:
    case LANE_TMEM_WAIT_LD:
    case LANE_TMEM_WAIT_ST:
    case LANE_TMEM_FENCE_BEFORE:
    case LANE_TMEM_FENCE_AFTER:
    case LANE_CP_COMMIT:
    case LANE_CP_WAIT: return GC_BARRIER;
    case LANE_FOR:
    case LANE_WHILE:
    case LANE_IF:
    case LANE_YIELD:
    case LANE_CONDITION:
    case LANE_EXIT: return GC_CONTROL;
    case LANE_ASM: return GC_ASM;
    case LANE_SQRT:
    case LANE_RCP:
    case LANE_RSQRT:
    case LANE_EX2:
    case LANE_LG2:
    case LANE_SIN:
    case LANE_COS:
    case LANE_TANH: return op->kind == LK_F64 ? GC_FP64 : GC_SPECIAL;
    case LANE_ADD:
    case LANE_SUB:
    case LANE_MUL:
    case LANE_FMA:
    case LANE_DIV:
    case LANE_NEG:
    case LANE_ABS: return arithmetic(op->kind);
    case LANE_CVT:
    case LANE_CVT2:
    case LANE_CVT1X2:
    case LANE_ROUND: return GC_CONVERT;
    case LANE_MIN:
    case LANE_MAX:
    case LANE_SETP:
    case LANE_SELECT:
    case LANE_MOVE:
    case LANE_PRMT:
    case LANE_PACK:
    case LANE_UNPACK: return GC_SELECT;
    default: return GC_INTEGER;
  }
}

int gpu_op_instructions(const LaneOp *op) {
  bool wide = lane_kind_info[op->kind].type == LT_B64, real = arithmetic(op->kind) != GC_INTEGER;
  switch (op->code) {
    case LANE_CONST:
    case LANE_PARAM:
    case LANE_SHARED:
    case LANE_UNPACK:
    case LANE_SHARED_READ:
    case LANE_YIELD:
    case LANE_CONDITION: return 0;
    case LANE_PACK: return op->kind == LK_B64 ? 0 : 1;
    case LANE_NEG:
    case LANE_ABS: return real ? 0 : 1; /* a sign on an operand */
    case LANE_FOR: return 3; /* step, compare, branch: once an iteration in truth, and counted where it stands */
    case LANE_DIV: return real ? (op->kind == LK_F64 ? 24 : op->approx ? 6 : 10) : wide ? 70 : 20;
    case LANE_REM: return wide ? 70 : 22;
    case LANE_SQRT:
    case LANE_RCP: return op->approx ? 1 : op->kind == LK_F64 ? 16 : 8;
    case LANE_MUL:
    case LANE_FMA:
    case LANE_MULHI: return !real && wide ? 5 : 1;
    case LANE_ADD:
    case LANE_SUB:
    case LANE_AND:
    case LANE_OR:
    case LANE_XOR:
    case LANE_NOT:
    case LANE_SHL:
    case LANE_SHR:
    case LANE_SETP:
    case LANE_SELECT: return !real && wide ? 2 : 1;
    default: return 1;
  }
}

int gpu_product_bytes(const LaneOp *op) {
  if (op->code == LANE_TMEM_MMA) return 2 * 16 * (op->rows + op->columns);
  int columns = 2 * op->out_count, rows = lane_wgmma_inputs(op) == 2 ? 64 : 0;
  return 2 * 16 * (rows + columns);
}
