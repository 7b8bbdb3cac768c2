// Reads and writes bursts on command, one mover per port: the least that has the ports of the DMA
// engine. It has none of the engine's insides, and is no part of the product; the tests of the
// machine around the engine run on it.
//
// A mover keeps what it reads, and writes what any mover has kept. It measures its own time, so
// that the machine's claims are checked from inside. Its BROKEN register makes it break a rule.
module mover #(
    BYTES = 32
) (
    input clk,
    input rst,
    // Registers: sixteen words.
    input set,
    input [3:0] set_index,
    input [31:0] set_value,
    input [3:0] get_index,
    output logic [31:0] get_value,
    output logic finished,
    // What this mover has kept, and what another one has.
    input [8:0] peek_at,
    output [8*BYTES-1:0] peek,
    output [4:0] source,
    output [8:0] source_at,
    input [8*BYTES-1:0] source_data,
    output [1:0] aw_id,
    output [63:0] aw_addr,
    output [7:0] aw_len,
    output [2:0] aw_size,
    output [1:0] aw_burst,
    output aw_valid,
    input aw_ready,
    output [8*BYTES-1:0] w_data,
    output [BYTES-1:0] w_strb,
    output w_last,
    output w_valid,
    input w_ready,
    input [1:0] b_id,
    input [1:0] b_resp,
    input b_valid,
    output b_ready,
    output [1:0] ar_id,
    output [63:0] ar_addr,
    output [7:0] ar_len,
    output [2:0] ar_size,
    output [1:0] ar_burst,
    output ar_valid,
    input ar_ready,
    input [1:0] r_id,
    input [8*BYTES-1:0] r_data,
    input [1:0] r_resp,
    input r_last,
    input r_valid,
    output r_ready
);
  localparam AR_WITHDRAWN = 1,
      AR_CHANGED = 2,
      AW_WITHDRAWN = 3,
      W_WITHDRAWN = 4,
      W_CHANGED = 5,
      NO_WLAST = 6,
      EARLY_WLAST = 7,
      NO_STROBES = 8,
      WRONG_SIZE = 9,
      WRONG_BURST = 10,
      NEVER_READY = 11,
      VALID_IN_RESET = 12,
      ASSERTION = 13,
      STROBES_BEFORE = 14;
  localparam COMMAND = 7;

  logic [63:0] address = 0;
  logic [31:0] bursts = 0, step = 0, shape = 0, limit = 0, broken = 0, tail = 0;
  wire [7:0] len = shape[7:0];
  assign source = shape[20:16];

  logic reading = 0, writing = 0;
  // Bursts: addresses accepted, answered, with all their data; beats within the current one.
  logic [31:0] asked = 0, ended = 0, sent = 0;
  logic [7:0] beat = 0;
  logic [31:0] beats = 0, waited = 0, duration = 0, errors = 0, last_faults = 0, first_error = 0;
  logic ar_stalled = 0, aw_stalled = 0, w_stalled = 0;

  wire asking = asked != bursts && asked - ended < limit;
  wire sending = sent != bursts && sent - ended < limit;
  wire valid_in_reset = rst && broken == VALID_IN_RESET;
  wire [2:0] size = 3'($clog2(BYTES)) - 3'(broken == WRONG_SIZE);
  wire [1:0] burst = broken == WRONG_BURST ? 0 : 1;

  assign ar_id = shape[25:24];
  assign aw_id = ar_id;
  assign aw_addr = address + 64'(asked) * 64'(step);
  assign ar_addr = aw_addr + 64'(broken == AR_CHANGED && ar_stalled);
  assign {ar_len, ar_size, ar_burst} = {len, size, burst};
  assign {aw_len, aw_size, aw_burst} = {len, size, burst};
  assign ar_valid =
      (!rst && reading && asking && !(broken == AR_WITHDRAWN && ar_stalled)) || valid_in_reset;
  assign aw_valid = !rst && writing && asking && !(broken == AW_WITHDRAWN && aw_stalled);
  assign w_valid = !rst && writing && sending && !(broken == W_WITHDRAWN && w_stalled);
  assign r_ready = !rst && broken != NEVER_READY;
  assign b_ready = !rst && broken != NEVER_READY;

  logic [8*BYTES-1:0] kept[512];
  assign peek = kept[peek_at];
  assign source_at = beats[8:0];
  assign w_data = source_data ^ (8 * BYTES)'(broken == W_CHANGED && w_stalled);
  assign w_last = (beat == len && broken != NO_WLAST) || (broken == EARLY_WLAST && beat == 0);
  wire [BYTES-1:0] ones = '1;
  wire [31:0] head = beat == 0 && broken != STROBES_BEFORE ? 32'(address % BYTES) : 0;
  wire [31:0] cut = beat == len && tail != 0 ? BYTES - tail : 0;
  assign w_strb = broken == NO_STROBES ? 0 : (ones << head) & (ones >> cut);

  wire take = r_valid && r_ready;
  wire send = w_valid && w_ready;
  wire answer = b_valid && b_ready;
  wire failure = (take && r_resp != 0) || (answer && b_resp != 0);
  wire done = (reading || writing) && ended == bursts;

  always_comb
    case (get_index)
      8: get_value = {31'b0, reading || writing};
      9: get_value = beats;
      10: get_value = waited;
      11: get_value = duration;
      12: get_value = errors;
      13: get_value = first_error;
      14: get_value = last_faults;
      default: get_value = 0;
    endcase

  always_ff @(posedge clk) begin
    if (broken == ASSERTION) assert (beats != 3) else $error("the third beat arrived");
    finished <= done;
    ar_stalled <= ar_valid && !ar_ready;
    aw_stalled <= aw_valid && !aw_ready;
    w_stalled <= w_valid && !w_ready;

    if (ar_valid && ar_ready || aw_valid && aw_ready) asked <= asked + 1;
    if (take) begin
      kept[beats[8:0]] <= r_data;
      beats <= beats + 1;
      beat <= r_last ? 0 : beat + 1;
      if (r_last) ended <= ended + 1;
      if (r_last != (beat == len)) last_faults <= last_faults + 1;
    end
    if (send) begin
      beats <= beats + 1;
      beat <= beat == len ? 0 : beat + 1;
      if (beat == len) sent <= sent + 1;
    end
    if (answer) ended <= ended + 1;
    if (failure) begin
      errors <= errors + 1;
      if (errors == 0) first_error <= {r_valid ? r_resp : b_resp, r_valid ? beats[29:0] : ended[29:0]};
    end
    if (reading || writing) duration <= duration + 1;
    // From the cycle in which the first address is accepted, or of writes the last beat of the
    // first burst, to the one in which the first response is offered.
    if (reading ? asked != 0 && beats == 0 && !r_valid : sent != 0 && ended == 0 && !b_valid)
      waited <= waited + 1;
    if (done) {reading, writing} <= 0;

    if (set)
      case (set_index)
        0: address[31:0] <= set_value;
        1: address[63:32] <= set_value;
        2: bursts <= set_value;
        3: shape <= set_value;
        4: step <= set_value;
        5: limit <= set_value;
        6: broken <= set_value;
        15: tail <= set_value;
        COMMAND: begin
          {writing, reading} <= set_value[1:0];
          {asked, ended, sent, beats, waited, duration, errors, first_error, last_faults} <= 0;
          beat <= 0;
        end
        default: ;
      endcase
    if (rst) begin
      {reading, writing} <= 0;
      broken <= 0;
    end
  end
endmodule

// The movers and their registers. Port UNITS is the host's.
module copier #(
    UNITS = 2,
    BYTES = 32
) (
    input clk,
    input rst,
    output irq,
    input [11:0] s_axil_awaddr,
    input s_axil_awvalid,
    output s_axil_awready,
    input [31:0] s_axil_wdata,
    input s_axil_wvalid,
    output s_axil_wready,
    output [1:0] s_axil_bresp,
    output s_axil_bvalid,
    input s_axil_bready,
    input [11:0] s_axil_araddr,
    input s_axil_arvalid,
    output s_axil_arready,
    output [31:0] s_axil_rdata,
    output [1:0] s_axil_rresp,
    output s_axil_rvalid,
    input s_axil_rready,
    output [1:0] aw_id[UNITS+1],
    output [63:0] aw_addr[UNITS+1],
    output [7:0] aw_len[UNITS+1],
    output [2:0] aw_size[UNITS+1],
    output [1:0] aw_burst[UNITS+1],
    output aw_valid[UNITS+1],
    input aw_ready[UNITS+1],
    output [8*BYTES-1:0] w_data[UNITS+1],
    output [BYTES-1:0] w_strb[UNITS+1],
    output w_last[UNITS+1],
    output w_valid[UNITS+1],
    input w_ready[UNITS+1],
    input [1:0] b_id[UNITS+1],
    input [1:0] b_resp[UNITS+1],
    input b_valid[UNITS+1],
    output b_ready[UNITS+1],
    output [1:0] ar_id[UNITS+1],
    output [63:0] ar_addr[UNITS+1],
    output [7:0] ar_len[UNITS+1],
    output [2:0] ar_size[UNITS+1],
    output [1:0] ar_burst[UNITS+1],
    output ar_valid[UNITS+1],
    input ar_ready[UNITS+1],
    input [1:0] r_id[UNITS+1],
    input [8*BYTES-1:0] r_data[UNITS+1],
    input [1:0] r_resp[UNITS+1],
    input r_last[UNITS+1],
    input r_valid[UNITS+1],
    output r_ready[UNITS+1]
);
  localparam PORTS = UNITS + 1;
  localparam IRQ_ENABLE = 12'h004, IRQ_STATUS = 12'h008, BROKEN = 12'h00C, NOWHERE = 12'hFFC;
  localparam UNASKED = 1, SILENT = 2, RDATA_CHANGED = 3, R_WITHDRAWN = 4;

  // s_axil: a write is taken when both halves are there and its response is gone.
  logic aw_full = 0, w_full = 0, b_full = 0, r_full = 0, r_stalled = 0;
  logic [11:0] aw_held = 0;
  logic [31:0] w_held = 0, r_held = 0, broken = 0;
  logic [1:0] b_held = 0, r_status = 0;
  assign s_axil_awready = !rst && !aw_full;
  assign s_axil_wready = !rst && !w_full;
  assign s_axil_bvalid = !rst && (b_full || broken == UNASKED);
  assign s_axil_bresp = b_held;
  assign s_axil_arready = !rst && !r_full && broken != SILENT;
  assign s_axil_rvalid = !rst && r_full && !(broken == R_WITHDRAWN && r_stalled);
  assign s_axil_rdata = r_held ^ 32'(broken == RDATA_CHANGED && r_stalled);
  assign s_axil_rresp = r_status;
  wire write = aw_full && w_full && !b_full;

  logic irq_enable = 0, irq_status = 0;
  assign irq = irq_enable && irq_status;

  // Movers' registers start at 0x100, 0x40 each.
  wire [5:0] set_port = aw_held[11:6] - 4, get_port = s_axil_araddr[11:6] - 4;
  logic [31:0] values[PORTS];
  logic finished[PORTS];
  logic [8*BYTES-1:0] peek[PORTS];
  logic [4:0] source[PORTS];
  logic [8:0] source_at[PORTS];

  logic any_finished;
  always_comb begin
    any_finished = 0;
    for (int k = 0; k < PORTS; ++k) any_finished |= finished[k];
  end

  for (genvar k = 0; k < PORTS; ++k) begin : port
    logic [8:0] peek_at;
    always_comb begin
      peek_at = 0;
      for (int j = 0; j < PORTS; ++j)
        if (source[j] == k && w_valid[j]) peek_at = source_at[j];
    end
    mover #(
        .BYTES(BYTES)
    ) mover (
        .clk,
        .rst,
        .set(write && set_port == k),
        .set_index(aw_held[5:2]),
        .set_value(w_held),
        .get_index(s_axil_araddr[5:2]),
        .get_value(values[k]),
        .finished(finished[k]),
        .peek_at(peek_at),
        .peek(peek[k]),
        .source(source[k]),
        .source_at(source_at[k]),
        .source_data(peek[source[k] < PORTS ? source[k] : 0]),
        .aw_id(aw_id[k]),
        .aw_addr(aw_addr[k]),
        .aw_len(aw_len[k]),
        .aw_size(aw_size[k]),
        .aw_burst(aw_burst[k]),
        .aw_valid(aw_valid[k]),
        .aw_ready(aw_ready[k]),
        .w_data(w_data[k]),
        .w_strb(w_strb[k]),
        .w_last(w_last[k]),
        .w_valid(w_valid[k]),
        .w_ready(w_ready[k]),
        .b_id(b_id[k]),
        .b_resp(b_resp[k]),
        .b_valid(b_valid[k]),
        .b_ready(b_ready[k]),
        .ar_id(ar_id[k]),
        .ar_addr(ar_addr[k]),
        .ar_len(ar_len[k]),
        .ar_size(ar_size[k]),
        .ar_burst(ar_burst[k]),
        .ar_valid(ar_valid[k]),
        .ar_ready(ar_ready[k]),
        .r_id(r_id[k]),
        .r_data(r_data[k]),
        .r_resp(r_resp[k]),
        .r_last(r_last[k]),
        .r_valid(r_valid[k]),
        .r_ready(r_ready[k])
    );
  end

  always_ff @(posedge clk) begin
    r_stalled <= s_axil_rvalid && !s_axil_rready;
    if (any_finished) irq_status <= 1;
    if (s_axil_awvalid && s_axil_awready) {aw_full, aw_held} <= {1'b1, s_axil_awaddr};
    if (s_axil_wvalid && s_axil_wready) {w_full, w_held} <= {1'b1, s_axil_wdata};
    if (s_axil_bvalid && s_axil_bready) b_full <= 0;
    if (write) begin
      {aw_full, w_full, b_full} <= 3'b001;
      b_held <= aw_held == NOWHERE ? 2 : 0;
      if (aw_held == IRQ_ENABLE) irq_enable <= w_held[0];
      if (aw_held == IRQ_STATUS && w_held[0]) irq_status <= 0;
      if (aw_held == BROKEN) broken <= w_held;
    end
    if (s_axil_rvalid && s_axil_rready) r_full <= 0;
    if (s_axil_arvalid && s_axil_arready) begin
      r_full <= 1;
      r_status <= s_axil_araddr == NOWHERE ? 2 : 0;
      r_held <= s_axil_araddr == 0 ? 32'h434F5059 :
          s_axil_araddr == IRQ_STATUS ? 32'(irq_status) :
          get_port < PORTS ? values[get_port] : 0;
    end
    if (rst) begin
      {aw_full, w_full, b_full, r_full, irq_enable, irq_status} <= 0;
      broken <= 0;
    end
  end
endmodule
