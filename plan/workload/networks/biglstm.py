"""BIG LSTM: two layers of 8192 with projections to 1024 (Jozefowicz et al. 2016, §5).

Unrolled over 20 words, as it is trained. The tables of 793,471 words, 1.6 of its 1.8 billion
weights, lie with parameter servers: the device has the rows that a step uses, the minibatch's words
and the 8192 that the sampled softmax draws.
"""

from cdma.plan.workload.builder import Builder

WORDS = 20
COLUMNS = 1024
UNITS = 8192
LAYERS = 2
SAMPLED = 8192


def biglstm(net: Builder, dataset: str) -> None:
    """BigLSTM on the One Billion Word benchmark. A batch's element is a run of 20 words."""
    # An embedding per word, so that each step of the LSTM waits for its own only.
    sequence = []
    for step in range(WORDS):
        words = net.input(f"words{step}")
        sequence.append(net.embedding(f"embedding{step}", words, COLUMNS, rows=net.batch))
    for layer in range(LAYERS):
        state = None
        outputs = []
        for step, x in enumerate(sequence):
            name = f"lstm{layer}.{step}"
            shared = step > 0
            hidden, cell = net.lstm(name, x, state, UNITS, columns=COLUMNS, shared=shared)
            x = net.fc(f"{name}.projection", hidden, COLUMNS, bias=False, shared=shared)
            outputs.append(x)
            state = x, cell
        sequence = outputs
    for step, x in enumerate(sequence):
        # A word's logits: its own and those of the sampled words.
        x = net.fc(f"logits{step}", x, SAMPLED + 1, shared=step > 0)
        net.softmax(f"prob{step}", x)
