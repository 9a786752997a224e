"""Cross entropy of logits against class indices, with the gradient in the same launch."""
import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits_ptr, target_ptr, loss_ptr, grad_ptr, stride, n_classes, ignore_index, BLOCK: tl.constexpr):
    """loss[r] = logsumexp(logits[r, :]) - logits[r, target[r]]; grad[r, :] = softmax(logits[r, :]) - onehot(target[r]).

    Rows whose target is ignore_index get loss 0 and gradient 0. logits, grad: [rows, n_classes], row stride `stride`, any
    float type, computed in fp32; target: [rows] int; loss: [rows] fp32. Grid: (rows,).
    """
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    logits_row = logits_ptr + row * stride
    grad_row = grad_ptr + row * stride
    if target == ignore_index:
        for start in range(0, n_classes, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            tl.store(grad_row + cols, tl.zeros([BLOCK], tl.float32).to(grad_ptr.dtype.element_ty), mask=cols < n_classes)
        tl.store(loss_ptr + row, 0.0)
        return
    top = -float("inf")
    total = 0.0
    for start in range(0, n_classes, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits_row + cols, mask=cols < n_classes, other=-float("inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), axis=0)
        top = new_top
    log_sum = top + tl.log(total)
    tl.store(loss_ptr + row, log_sum - tl.load(logits_row + target).to(tl.float32))
    for start in range(0, n_classes, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_classes
        x = tl.load(logits_row + cols, mask=mask, other=-float("inf")).to(tl.float32)
        grad = tl.exp(x - log_sum) - tl.where(cols == target, 1.0, 0.0)
        tl.store(grad_row + cols, grad.to(grad_ptr.dtype.element_ty), mask=mask)
