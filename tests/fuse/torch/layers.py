# Activations, norms, convolutions, attention; recurrent cells and layers of transformers as modules.
import torch
import torch.nn as nn
import torch.nn.functional as F


# x f64[40]; grad
def activations(x):
    v = x * 5
    return [f(v) for f in [F.gelu, F.silu, F.mish, F.softplus, F.elu, F.selu, F.celu, F.leaky_relu, F.relu6, F.hardtanh, F.hardsigmoid, F.hardswish, F.hardshrink, F.softshrink, F.tanhshrink, F.softsign, F.logsigmoid, torch.sigmoid, torch.tanh, torch.erf]] + [F.gelu(v, approximate="tanh"), F.threshold(v, 0.5, -2.0), F.glu(v.view(4, 10), 1)]


# x f64[3,6,4], w f64[4], b f64[4], c f64[6]; grad
def norms(x, w, b, c):
    return F.layer_norm(x, (4,), w, b), F.group_norm(x, 3, c, c), F.rms_norm(x, (4,), w), F.instance_norm(x), F.batch_norm(x, None, None, c, c, training=True), F.normalize(x, dim=-1), F.local_response_norm(x, 3)


# x f64[2,4,7,6], w f64[6,2,3,3], v f64[4,3,2,2], b f64[6]; grad
def convolutions(x, w, v, b):
    return F.conv2d(x, w, b, stride=2, padding=1, groups=2), F.conv_transpose2d(x, v, stride=2, padding=1, output_padding=1), F.conv2d(x[:, :2], w, dilation=2, padding="same"), F.conv1d(x[:, :, 0], w[:, :, 0].reshape(3, 4, 3))


# x f64[1,2,1], v f64[2,1,12]; grad
def convolutions_of_borders(x, v):
    return F.conv_transpose1d(x, v, stride=2, padding=5), F.conv_transpose1d(x, v, stride=3, padding=5, output_padding=2)


# q f64[2,2,5,4], k f64[2,2,6,4], v f64[2,2,6,4], m i1[5,6]; grad
def attentions(q, k, v, m):
    return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k[:, :, :5], v[:, :, :5], is_causal=True), F.scaled_dot_product_attention(q, k, v, attn_mask=m & (q[0, 0, :, :1] > -0.5), scale=0.7), F.scaled_dot_product_attention(q, k, v, attn_mask=q[0, 0, 0].sum() + q[0, 0, :, :1] * k[0, 0, :, 0])


# x f32[2,3], h f32[2,4], c f32[2,4], m.weight_ih f32[16,3], m.weight_hh f32[16,4], m.bias_ih f32[16], m.bias_hh f32[16]; grad
# tolerance 1e-5
class LstmCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.LSTMCell(3, 4)

    def forward(self, x, h, c):
        return self.m(x, (h, c))


# x f32[2,3], h f32[2,4], m.weight_ih f32[12,3], m.weight_hh f32[12,4], m.bias_ih f32[12], m.bias_hh f32[12]; grad
# tolerance 1e-5
class GruCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.GRUCell(3, 4)

    def forward(self, x, h):
        return self.m(x, h)


# x f32[2,3], h f32[2,4], m.weight_ih f32[4,3], m.weight_hh f32[4,4], m.bias_ih f32[4], m.bias_hh f32[4]; grad
# tolerance 1e-5
class RnnCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.RNNCell(3, 4, nonlinearity="relu")

    def forward(self, x, h):
        return self.m(x, h)


# x f32[2,5,3], m.weight_ih_l0 f32[16,3], m.weight_hh_l0 f32[16,4], m.bias_ih_l0 f32[16], m.bias_hh_l0 f32[16], m.weight_ih_l0_reverse f32[16,3], m.weight_hh_l0_reverse f32[16,4], m.bias_ih_l0_reverse f32[16], m.bias_hh_l0_reverse f32[16]; grad
# tolerance 1e-5
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.LSTM(3, 4, bidirectional=True, batch_first=True)

    def forward(self, x):
        return self.m(x)


# x f32[5,2,3], m.weight_ih_l0 f32[12,3], m.weight_hh_l0 f32[12,4], m.bias_ih_l0 f32[12], m.bias_hh_l0 f32[12], m.weight_ih_l1 f32[12,4], m.weight_hh_l1 f32[12,4], m.bias_ih_l1 f32[12], m.bias_hh_l1 f32[12]; grad
# tolerance 1e-5
class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.GRU(3, 4, num_layers=2)

    def forward(self, x):
        return self.m(x)


# x f32[2,3,8], y f32[2,4,8], m.in_proj_weight f32[24,8], m.in_proj_bias f32[24], m.out_proj.weight f32[8,8], m.out_proj.bias f32[8]; grad
# tolerance 1e-5
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, y):
        return self.m(x, y, y)


# x f32[2,3,8], m.self_attn.in_proj_weight f32[24,8], m.self_attn.in_proj_bias f32[24], m.self_attn.out_proj.weight f32[8,8], m.self_attn.out_proj.bias f32[8], m.linear1.weight f32[16,8], m.linear1.bias f32[16], m.linear2.weight f32[8,16], m.linear2.bias f32[8], m.norm1.weight f32[8], m.norm1.bias f32[8], m.norm2.weight f32[8], m.norm2.bias f32[8]; grad
# tolerance 1e-5
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.m(x)


# x f32[3,2,8], y f32[4,2,8], m.self_attn.in_proj_weight f32[24,8], m.self_attn.in_proj_bias f32[24], m.self_attn.out_proj.weight f32[8,8], m.self_attn.out_proj.bias f32[8], m.linear1.weight f32[16,8], m.linear1.bias f32[16], m.linear2.weight f32[8,16], m.linear2.bias f32[8], m.norm1.weight f32[8], m.norm1.bias f32[8], m.norm2.weight f32[8], m.norm2.bias f32[8], m.multihead_attn.in_proj_weight f32[24,8], m.multihead_attn.in_proj_bias f32[24], m.multihead_attn.out_proj.weight f32[8,8], m.multihead_attn.out_proj.bias f32[8], m.norm3.weight f32[8], m.norm3.bias f32[8]; grad
# tolerance 1e-5
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, activation="gelu", norm_first=True)

    def forward(self, x, y):
        return self.m(x, y)


# x f32[6,4], m.weight f32[4], m.bias f32[4], m.running_mean f32[4], m.running_var f32+[4], m.num_batches_tracked i64[]
# tolerance 1e-5
class BatchNormAverage(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.BatchNorm1d(4, momentum=None)

    def forward(self, x):
        return self.m(x) + self.m(x * 2)


# x f64[2,6,5], g f64[2,6,5], w f64[6], b f64[6], m f64[6], v f64+[6]
def norms_and_gradients_of_aten(x, g, w, b, m, v):
    aten = torch.ops.aten
    y, mean, r = aten.native_group_norm.default(x, w, b, 2, 6, 5, 3, 1e-05)
    groups = aten.native_group_norm_backward.default(g, x, mean, r, w, 2, 6, 5, 3, [True, True, True])
    z, rows, s = aten.native_layer_norm.default(x, [5], None, None, 1e-05)
    layers = aten.native_layer_norm_backward.default(g, x, [5], rows, s, None, None, [True, False, False])
    fixed = aten._native_batch_norm_legit_no_training.default(x, w, b, m, v, 0.1, 1e-05)
    own, n, t = aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-05)
    batches = aten.native_batch_norm_backward.default(g, x, w, None, None, n, t, True, 1e-05, [True, True, True])
    return y, mean, r, *groups, z, rows, s, layers[0], fixed[0], own, n, t, *batches


# g f64[2,4,9,9], x f64[2,6,5,5], w f64[6,2,3,3]
def gradients_of_a_transposed_convolution(g, x, w):
    return torch.ops.aten.convolution_backward.default(g, x, w, [4], [2, 2], [1, 1], [1, 1], True, [0, 0], 2, [True, True, True])


# error the gradient of a transposed convolution with an output_padding as large as its stride is not supported
# g f64[2,4,6], x f64[2,6,3], w f64[6,4,3]
def a_transposed_convolution_with_more_at_its_end(g, x, w):
    return torch.ops.aten.convolution_backward.default(g, x, w, [4], [1], [1], [2], True, [1], 1, [True, True, True])


# a.q_proj_weight f32[8,8], a.k_proj_weight f32[8,6], a.v_proj_weight f32[8,5], a.in_proj_bias f32[24], a.bias_k f32[1,1,8], a.bias_v f32[1,1,8], a.out_proj.weight f32[8,8], a.out_proj.bias f32[8], x f32[3,2,8], k f32[4,2,6], v f32[4,2,5], m i1[3,4]; grad
# tolerance 1e-5
class AttentionOfOtherWidths(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.MultiheadAttention(8, 2, kdim=6, vdim=5, add_bias_kv=True, add_zero_attn=True)

    def forward(self, x, k, v, m):
        y, w = self.a(x, k, v, attn_mask=m)
        return y, w, self.a(x, k, v, need_weights=False, attn_mask=nn.Transformer.generate_square_subsequent_mask(4)[:3])[0]


# c.weight f32[4,3,3,3], c.bias f32[4], d.weight f32[2,3,2], e.weight f32[2,3,4,4], x f32[2,3,5,6]; grad
# tolerance 1e-5
class BordersOfConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, padding=(1, 2), padding_mode="reflect")
        self.d = nn.Conv1d(3, 2, 2, padding="same", padding_mode="circular", bias=False)
        self.e = nn.Conv2d(3, 2, 4, stride=2, padding=2, padding_mode="replicate", bias=False)

    def forward(self, x):
        return self.c(x), self.d(x[..., 0]), self.e(x), self.c(x[0])


# n.weight f32[3], n.bias f32[3], n.running_mean f32[3], n.running_var f32[3], n.num_batches_tracked i64[]<1, x f32[2,3,5,4]
# tolerance 1e-5
class InstancesWithStatistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
        self.alone = nn.InstanceNorm2d(3)

    def forward(self, x):
        y = self.n(x)
        self.n.eval()
        return y, F.instance_norm(x, x.mean((0, 2, 3)), x.square().mean((0, 2, 3)), use_input_stats=False), self.alone(x[0])


# m f64[3], v f64[3], x f64[4,3]
def statistics_kept(m, v, x):
    return F.batch_norm(x, m, v, training=True, momentum=0.3)


# t.weight f32[3,2,3,3], t.bias f32[2], x f32[1,3,4,5]
# tolerance 1e-5
class SizeOfTransposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)

    def forward(self, x):
        return self.t(x, output_size=(8, 9)), self.t(x)


# x f64[2,3,7,9]
def made_smaller(x):
    return [F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), F.interpolate(x, scale_factor=0.6, mode="bicubic", antialias=True), F.interpolate(x, size=(9, 5), mode="bicubic", antialias=True),
            F.interpolate(x, size=(4, 3), mode="bilinear", antialias=True, align_corners=True), F.upsample(x, scale_factor=2), nn.functional.upsample_bilinear(x, size=(10, 10))]


# x f64[2,2,5,6], g f64[2,3,4,2], v f64[1,2,3,4,5], h f64[1,2,2,3,3]; grad
def sampled(x, g, v, h):
    g, h = g * 1.3, h * 1.2
    return [*[F.grid_sample(x, g, mode="bicubic", padding_mode=p, align_corners=c) for p in ("zeros", "border", "reflection") for c in (False, True)],
            F.grid_sample(v, h, align_corners=False), F.grid_sample(v, h, padding_mode="border", align_corners=True), F.grid_sample(v, h, mode="nearest", align_corners=False)]
