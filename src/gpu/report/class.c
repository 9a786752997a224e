/* What the operations of the lane IR are as machine instructions: their class, and about how many ptxas makes of one.
 * Constants, parameters and the halves of 64-bit registers are operands, no instructions. Quotients and the like are
 * sequences; their numbers are those of sm_90.
 */
#include "gpu/report/counts.h"

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

/* Of an operation that is in one class wherever it stands, that class and 1; of others 0. */
static const uint8_t classes[LANE_COUNT] = {
    [LANE_LDMATRIX] = GC_LOAD_SHARED + 1,
    [LANE_STMATRIX] = GC_STORE_SHARED + 1,
    [LANE_MMA] = GC_TENSOR + 1,
    [LANE_WGMMA] = GC_TENSOR + 1,
    [LANE_TMEM_MMA] = GC_TENSOR + 1,
    [LANE_TMEM_LD] = GC_LOAD_SHARED + 1,
    [LANE_TMEM_ST] = GC_STORE_SHARED + 1,
    [LANE_TENSOR_LOAD] = GC_COPY + 1,
    [LANE_TENSOR_STORE] = GC_COPY + 1,
    [LANE_TENSOR_RED] = GC_COPY + 1,
    [LANE_CP_ASYNC] = GC_COPY + 1,
    [LANE_ATOM] = GC_ATOMIC + 1,
    [LANE_SHFL] = GC_SHUFFLE + 1,
    [LANE_VOTE] = GC_SHUFFLE + 1,
    [LANE_REDUX] = GC_SHUFFLE + 1,
    [LANE_MBAR_INIT] = GC_BARRIER + 1,
    [LANE_MBAR_ARRIVE] = GC_BARRIER + 1,
    [LANE_MBAR_EXPECT] = GC_BARRIER + 1,
    [LANE_MBAR_WAIT] = GC_BARRIER + 1,
    [LANE_FENCE_MBAR] = GC_BARRIER + 1,
    [LANE_BULK_COMMIT] = GC_BARRIER + 1,
    [LANE_BULK_WAIT] = GC_BARRIER + 1,
    [LANE_SETMAXNREG] = GC_BARRIER + 1,
    [LANE_BARRIER_ARRIVE] = GC_BARRIER + 1,
    [LANE_CLUSTER_BARRIER] = GC_BARRIER + 1,
    [LANE_BARRIER] = GC_BARRIER + 1,
    [LANE_FENCE] = GC_BARRIER + 1,
    [LANE_FENCE_PROXY] = GC_BARRIER + 1,
    [LANE_WGMMA_FENCE] = GC_BARRIER + 1,
    [LANE_WGMMA_COMMIT] = GC_BARRIER + 1,
    [LANE_WGMMA_WAIT] = GC_BARRIER + 1,
    [LANE_TMEM_COMMIT] = GC_BARRIER + 1,
    [LANE_TMEM_ALLOC] = GC_BARRIER + 1,
    [LANE_TMEM_RELINQUISH] = GC_BARRIER + 1,
    [LANE_TMEM_DEALLOC] = GC_BARRIER + 1,
    [LANE_TMEM_WAIT_LD] = GC_BARRIER + 1,
    [LANE_TMEM_WAIT_ST] = GC_BARRIER + 1,
    [LANE_TMEM_FENCE_BEFORE] = GC_BARRIER + 1,
    [LANE_TMEM_FENCE_AFTER] = GC_BARRIER + 1,
    [LANE_CP_COMMIT] = GC_BARRIER + 1,
    [LANE_CP_WAIT] = GC_BARRIER + 1,
    [LANE_FOR] = GC_CONTROL + 1,
    [LANE_WHILE] = GC_CONTROL + 1,
    [LANE_IF] = GC_CONTROL + 1,
    [LANE_YIELD] = GC_CONTROL + 1,
    [LANE_CONDITION] = GC_CONTROL + 1,
    [LANE_EXIT] = GC_CONTROL + 1,
    [LANE_TRAP] = GC_CONTROL + 1,
    [LANE_ASM] = GC_ASM + 1,
    [LANE_CVT] = GC_CONVERT + 1,
    [LANE_CVT2] = GC_CONVERT + 1,
    [LANE_CVT1X2] = GC_CONVERT + 1,
    [LANE_ROUND] = GC_CONVERT + 1,
    [LANE_MIN] = GC_SELECT + 1,
    [LANE_MAX] = GC_SELECT + 1,
    [LANE_SETP] = GC_SELECT + 1,
    [LANE_SELECT] = GC_SELECT + 1,
    [LANE_MOVE] = GC_SELECT + 1,
    [LANE_PRMT] = GC_SELECT + 1,
    [LANE_PACK] = GC_SELECT + 1,
    [LANE_UNPACK] = GC_SELECT + 1,
};

GpuClass gpu_op_class(const LaneOp *op) {
  bool shared = op->space == SPACE_SHARED;
  if (classes[op->code]) return (GpuClass)(classes[op->code] - 1);
  switch (op->code) {
    case LANE_LD: return shared ? GC_LOAD_SHARED : GC_LOAD_GLOBAL;
    case LANE_ST: return shared ? GC_STORE_SHARED : GC_STORE_GLOBAL;
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
    case LANE_GRID_WAIT: /* once, before the kernel begins */
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
