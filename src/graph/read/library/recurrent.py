# Recurrent modules: their steps unrolled.


class Recurrent(Module):
    projects = False

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, proj_size=0, device=None, dtype=None):
        if proj_size and not self.projects:
            prim.fail("proj_size is an LSTM's alone")
        self.p, self.dtype = dropout, or_float(dtype)
        self.input_size, self.hidden_size, self.num_layers, self.bidirectional = input_size, hidden_size, num_layers, bidirectional
        self.hidden, self.layers, self.batch_first, self.both = hidden_size, num_layers, batch_first, bidirectional
        self.proj_size, self.out = proj_size, proj_size if proj_size else hidden_size
        cells = []
        ways = 2 if bidirectional else 1
        for layer in range(num_layers):
            width = input_size if layer == 0 else self.out * ways
            for way in range(ways):
                cells.append(self.parameters_of(width, bias, f"l{layer}" + ("_reverse" if way else "")))
        self.cells = cells  # after the names that parameters have

    def parameters_of(self, width, bias, name):
        n, c = self.gates * self.hidden, {}
        c['w'], c['u'] = prim.parameter([n, width], self.dtype), prim.parameter([n, self.out], self.dtype)
        setattr(self, f"weight_ih_{name}", c['w'])
        setattr(self, f"weight_hh_{name}", c['u'])
        c['b'] = prim.parameter([n], self.dtype) if bias else 0
        c['d'] = prim.parameter([n], self.dtype) if bias else 0
        if bias:
            setattr(self, f"bias_ih_{name}", c['b'])
            setattr(self, f"bias_hh_{name}", c['d'])
        if self.proj_size:
            c['p'] = prim.parameter([self.proj_size, self.hidden], self.dtype)
            setattr(self, f"weight_hr_{name}", c['p'])
        return c

    def run(self, x, states):
        if x.ndim == 2:  # one sequence
            y, last = self.run(unsqueeze(x, 0 if self.batch_first else 1), None if states is None else [unsqueeze(s, 1) for s in states])
            return squeeze(y, 0 if self.batch_first else 1), [squeeze(s, 1) for s in last]
        x = transpose(x, 0, 1) if self.batch_first else x
        ways, ends = 2 if self.both else 1, []
        for layer in range(self.layers):
            x = dropout(x, self.p, self.training) if layer else x
            outs = []
            for way in range(ways):
                c = self.cells[layer * ways + way]
                state = [s[layer * ways + way] for s in states] if states is not None else [prim.full([x.shape[1], n], 0, x.dtype) for n in [self.out, self.hidden][:self.kept]]
                inputs = matmul(x, t(c['w'])) + c['b']
                steps = [None] * x.shape[0]
                for i in range(x.shape[0]):
                    at = x.shape[0] - 1 - i if way else i
                    state = self.step(inputs[at], state, c)
                    steps[at] = state[0]
                outs.append(stack(steps, 0))
                ends.append(state)
            x = cat(outs, 2) if ways == 2 else outs[0]
        last = [stack([e[k] for e in ends], 0) for k in range(self.kept)]
        return transpose(x, 0, 1) if self.batch_first else x, last


class LSTM(Recurrent):
    gates, kept, projects = 4, 2, True

    def step(self, x, state, c):
        h, cell = state
        i, f, g, o = chunk(x + matmul(h, t(c['u'])) + c['d'], 4, 1)
        cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(cell)
        return [matmul(h, t(c['p'])) if 'p' in c else h, cell]

    def forward(self, x, hx=None):
        y, last = self.run(x, hx)
        return y, (last[0], last[1])


class GRU(Recurrent):
    gates, kept = 3, 1

    def step(self, x, state, c):
        h = state[0]
        xr, xz, xn = chunk(x, 3, 1)
        hr, hz, hn = chunk(matmul(h, t(c['u'])) + c['d'], 3, 1)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        n = tanh(xn + r * hn)
        return [(1 - z) * n + z * h]

    def forward(self, x, hx=None):
        y, last = self.run(x, None if hx is None else [hx])
        return y, last[0]


class RNN(Recurrent):
    gates, kept = 1, 1

    def __init__(self, *args, nonlinearity='tanh', **how):
        self.bend = relu if nonlinearity == 'relu' or 'relu' in args else tanh
        super().__init__(*[a for a in args if not isinstance(a, str)], **how)

    def step(self, x, state, c): return [self.bend(x + matmul(state[0], t(c['u'])) + c['d'])]

    def forward(self, x, hx=None):
        y, last = self.run(x, None if hx is None else [hx])
        return y, last[0]


# One step of a layer; the module's parameters have no suffix.
class Cell(Module):
    def __init__(self, input_size, hidden_size, bias=True, nonlinearity='tanh', device=None, dtype=None):
        n, self.hidden = self.gates * hidden_size, hidden_size
        self.input_size, self.hidden_size = input_size, hidden_size
        self.bend = relu if nonlinearity == 'relu' else tanh
        self.weight_ih = prim.parameter([n, input_size], or_float(dtype))
        self.weight_hh = prim.parameter([n, hidden_size], or_float(dtype))
        self.bias_ih = prim.parameter([n], or_float(dtype)) if bias else None
        self.bias_hh = prim.parameter([n], or_float(dtype)) if bias else None

    def run(self, x, states):
        if x.ndim == 1:
            return [squeeze(s, 0) for s in self.run(unsqueeze(x, 0), None if states is None else [unsqueeze(s, 0) for s in states])]
        c = {'u': self.weight_hh, 'd': 0 if self.bias_hh is None else self.bias_hh}
        states = [prim.full([x.shape[0], self.hidden], 0, x.dtype)] * self.kept if states is None else states
        return self.step(linear(x, self.weight_ih, self.bias_ih), states, c)


class LSTMCell(Cell):
    gates, kept = 4, 2
    def step(self, x, state, c): return LSTM.step(self, x, state, c)

    def forward(self, x, hx=None):
        h, cell = self.run(x, hx)
        return h, cell


class GRUCell(Cell):
    gates, kept = 3, 1
    def step(self, x, state, c): return GRU.step(self, x, state, c)
    def forward(self, x, hx=None): return self.run(x, None if hx is None else [hx])[0]


class RNNCell(Cell):
    gates, kept = 1, 1
    def step(self, x, state, c): return RNN.step(self, x, state, c)
    def forward(self, x, hx=None): return self.run(x, None if hx is None else [hx])[0]
