# Attention.


def attention_scores(q, k, is_causal, attn_mask, scale):
    s = matmul(q, transpose(k, -2, -1)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        s = prim.where(unsqueeze(arange(s.shape[-2]), 1) >= arange(s.shape[-1]), s, -math.inf).to(s.dtype)
    if attn_mask is None:
        return s
    return prim.where(attn_mask, s, -math.inf).to(s.dtype) if prim.is_bool(attn_mask.dtype) else s + attn_mask


# The weights and their logsumexp. Rows whose places are all hidden are 0. Only a mask hides all of a row: the diagonal
# of is_causal leaves the first place.
def attention_weights(s, attn_mask):
    dims, wide = [s.ndim - 1], s if s.dtype == torch.float64 else prim.convert(s, torch.float32)
    if prim.is_empty(s):
        return s, prim.convert(squeeze(prim.sum(wide, dims), -1), torch.float32)
    m = prim.max(wide, dims)
    m = prim.detach(m if attn_mask is None else prim.where(m == -math.inf, 0, m))
    e = prim.exp(wide - m)
    total = prim.sum(e, dims)
    p = e / (total if attn_mask is None else prim.where(total == 0, 1, total))
    return prim.convert(p, s.dtype), prim.convert(squeeze(prim.log(total) + m, -1), torch.float32)


def aten__scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    p, lse = attention_weights(attention_scores(q, k, is_causal, attn_mask, scale), attn_mask)
    return matmul(p, v), lse


# Of queries, keys, values, and scores without a scale, which is the mask's.
def attention_gradients(grad, q, k, v, out, lse, is_causal, attn_mask, scale):
    if attn_mask is not None:
        lse = prim.where(lse == -math.inf, math.inf, lse)
    p = prim.exp(attention_scores(q, k, is_causal, attn_mask, scale) - unsqueeze(lse, -1)).to(q.dtype)
    gv = matmul(transpose(p, -2, -1), grad)
    gp = matmul(grad, transpose(v, -2, -1))
    gb = p * (gp - prim.sum(grad * out, [out.ndim - 1]))
    gs = gb * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return matmul(gs, k), matmul(transpose(gs, -2, -1), q), gv, gb


def aten__scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, lse, dropout_p, is_causal, *, attn_mask=None, scale=None):
    return attention_gradients(grad, q, k, v, out, lse, is_causal, attn_mask, scale)[:3]


# A row of logarithms is filled up to a multiple of 32. Without dropout the state of the random numbers is nobody's.
def aten__scaled_dot_product_efficient_attention(q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    p, lse = attention_weights(attention_scores(q, k, is_causal, attn_bias, scale), attn_bias)
    filling, state = -q.shape[-2] % 32, prim.full([], 0, torch.int64)
    lse = constant_pad_nd(lse, [0, filling], math.inf) if compute_log_sumexp else zeros(list(q.shape[:2]) + [0])
    return matmul(p, v), lse, state, state


def aten__scaled_dot_product_efficient_attention_backward(grad, q, k, v, attn_bias, out, lse, seed, offset, dropout_p, grad_input_mask, is_causal=False, *, scale=None):
    lse = prim.slice(lse, 2, 0, q.shape[-2], 1)
    gradients = attention_gradients(grad, q, k, v, out, lse, is_causal, attn_bias, scale)
    return [g if wanted else None for g, wanted in zip(gradients, grad_input_mask)]


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        key, value = repeat_interleave(key, query.shape[-3] // key.shape[-3], -3), repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    p = attention_weights(attention_scores(query, key, is_causal, attn_mask, scale), attn_mask)[0]
    return matmul(dropout(p, dropout_p) if dropout_p > 0 else p, value)


# ---- modules ----

# A mask of bools of a module says what is left out.
def left_out(mask): return None if mask is None else ~mask if prim.is_bool(mask.dtype) else mask
def both_masks(a, b): return b if a is None else a if b is None else additive(a) + additive(b)
def additive(mask): return prim.where(mask, 0.0, -math.inf) if prim.is_bool(mask.dtype) else mask


class MultiheadAttention(Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None, batch_first=False, device=None, dtype=None):
        self.heads, self.p, self.batch_first, self.zero = num_heads, dropout, batch_first, add_zero_attn
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        widths = [embed_dim, embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim]
        self.in_proj_weight = None
        if widths == [embed_dim] * 3:
            self.in_proj_weight = prim.parameter([3 * embed_dim, embed_dim], or_float(dtype))
        else:
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = [prim.parameter([embed_dim, n], or_float(dtype)) for n in widths]
        self.in_proj_bias = prim.parameter([3 * embed_dim], or_float(dtype)) if bias else None
        self.bias_k, self.bias_v = [prim.parameter([1, 1, embed_dim], or_float(dtype)) if add_bias_kv else None for _ in range(2)]
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)

    def weights(self, e):
        if self.in_proj_weight is None:
            return [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        return [prim.slice(self.in_proj_weight, 0, i * e, (i + 1) * e, 1) for i in range(3)]

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True, is_causal=False):
        if query.ndim == 2:
            batch = 0 if self.batch_first else 1
            padding = None if key_padding_mask is None else unsqueeze(key_padding_mask, 0)
            y, weights = self.forward(*[unsqueeze(x, batch) for x in [query, key, value]], padding, need_weights, attn_mask, average_attn_weights, is_causal)
            return squeeze(y, batch), None if weights is None else squeeze(weights, 0)
        qkv, e, more = [], query.shape[-1], [None, self.bias_k, self.bias_v]
        for i, x in enumerate([query, key, value]):
            b = None if self.in_proj_bias is None else prim.slice(self.in_proj_bias, 0, i * e, (i + 1) * e, 1)
            x = linear(x if self.batch_first else transpose(x, 0, 1), self.weights(e)[i], b)
            added = [] if more[i] is None else [prim.expand(more[i], [x.shape[0], 1, e])]
            added += [zeros(x.shape[0], 1, e, dtype=x.dtype)] if self.zero and i > 0 else []
            x = cat([x] + added, 1) if added else x
            x = prim.reshape(x, list(x.shape[:2]) + [self.heads, e // self.heads])
            qkv.append(transpose(x, 1, 2))
        q, k, v = qkv
        seen = k.shape[2] - key.shape[1 if self.batch_first else 0]  # what is added is not masked
        mask = left_out(attn_mask if attn_mask is None or not seen else F_pad(attn_mask, [0, seen]))
        if mask is not None and mask.ndim == 3:
            mask = prim.reshape(mask, [q.shape[0], self.heads] + list(mask.shape[1:]))
        padding = left_out(key_padding_mask if key_padding_mask is None or not seen else F_pad(key_padding_mask, [0, seen]))
        mask = both_masks(mask, None if padding is None else unsqueeze(unsqueeze(padding, 1), 1))
        p = softmax(attention_scores(q, k, False, mask, None), -1)
        weights = mean(p, 1) if average_attn_weights else p
        y = transpose(matmul(dropout(p, self.p, self.training), v), 1, 2)
        y = self.out_proj(flatten(y, 2))
        return y if self.batch_first else transpose(y, 0, 1), weights if need_weights else None


def activation_named(f): return {'relu': relu, 'gelu': gelu}[f] if isinstance(f, str) else f


class TransformerLayer(Module):
    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation='relu', layer_norm_eps=1e-05, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.linear1, self.linear2 = Linear(d_model, dim_feedforward, bias, dtype=dtype), Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.dropout, self.activation, self.norm_first = Dropout(dropout), activation_named(activation), norm_first
        for i in range(self.parts):
            setattr(self, f"norm{i + 1}", LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))
            setattr(self, f"dropout{i + 1}", Dropout(dropout))
        if self.parts == 3:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)

    def part(self, i, x, f):
        norm, drop = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        return x + drop(f(norm(x))) if self.norm_first else norm(x + drop(f(x)))

    def feed(self, x): return self.linear2(self.dropout(self.activation(self.linear1(x))))
    def attend(self, attention, x, memory, mask, padding, is_causal): return attention(x, memory, memory, padding, False, mask, is_causal=is_causal)[0]


class TransformerEncoderLayer(TransformerLayer):
    parts = 2

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = self.part(1, src, lambda y: self.attend(self.self_attn, y, y, src_mask, src_key_padding_mask, is_causal))
        return self.part(2, x, self.feed)


class TransformerDecoderLayer(TransformerLayer):
    parts = 3

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        x = self.part(1, tgt, lambda y: self.attend(self.self_attn, y, y, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.part(2, x, lambda y: self.attend(self.multihead_attn, y, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
        return self.part(3, x, self.feed)


class TransformerEncoder(Module):
    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        self.layers, self.norm = ModuleList([prim.clone_module(encoder_layer) for _ in range(num_layers)]), norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    def __init__(self, decoder_layer, num_layers, norm=None):
        self.layers, self.norm = ModuleList([prim.clone_module(decoder_layer) for _ in range(num_layers)]), norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1, activation='relu', custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-05, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        how = [d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias]
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias) for _ in range(2)]
        self.encoder = TransformerEncoder(TransformerEncoderLayer(*how), num_encoder_layers, norms[0]) if custom_encoder is None else custom_encoder
        self.decoder = TransformerDecoder(TransformerDecoderLayer(*how), num_decoder_layers, norms[1]) if custom_decoder is None else custom_decoder

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None, memory_is_causal=False):
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(size, device=None, dtype=None): return triu(prim.full([size, size], -math.inf, or_float(dtype)), 1)
