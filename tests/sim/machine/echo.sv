// Hands packets through unchanged, with a command before and a status after each: the least that
// keeps the rules of the ZVC blocks' ports. It has none of their insides, and is no part of the
// product; the simulator's own tests run on it.
//
// A command whose length has a fault's number in its top byte makes the device break that rule,
// with the third beat of that packet, or after it.
//
// The status tells what the command said, so that tests can see that it arrived.
module echo (
    input clk,
    input rst,
    input s_cmd_valid,
    output s_cmd_ready,
    input [31:0] s_cmd_length,
`ifdef TAKES_CRC
    input [31:0] s_cmd_crc32,
    input s_cmd_check_crc,
`endif
    input s_axis_tvalid,
    output s_axis_tready,
    input [8*`SECTOR_BYTES-1:0] s_axis_tdata,
    input [`SECTOR_BYTES-1:0] s_axis_tkeep,
    input s_axis_tlast,
    output m_axis_tvalid,
    input m_axis_tready,
    output [8*`SECTOR_BYTES-1:0] m_axis_tdata,
    output [`SECTOR_BYTES-1:0] m_axis_tkeep,
    output m_axis_tlast,
    output m_sts_valid,
    input m_sts_ready,
    output [3:0] m_sts_status,
    output [39:0] m_sts_offset,
    output [39:0] m_sts_out_size,
    output [31:0] m_sts_crc32
);
  localparam HANG = 1,
      WITHDRAWN_BEAT = 2,
      CHANGED_DATA = 3,
      CHANGED_KEEP = 4,
      CHANGED_LAST = 5,
      TORN_BEAT = 6,
      KEEP_HOLES = 7,
      UNCOMMANDED_BEAT = 8,
      WITHDRAWN_STATUS = 9,
      CHANGED_STATUS = 10,
      UNCOMMANDED_STATUS = 11,
      WRONG_SIZE = 12,
      VALID_IN_RESET = 13,
      TOO_MUCH = 14,
      ASSERTION = 15;

  typedef enum logic [1:0] {IDLE, MOVING, DRAINING, TELLING} state_t;
  state_t state = IDLE;

  logic full = 0;
  logic [8*`SECTOR_BYTES-1:0] data = 0;
  logic [`SECTOR_BYTES-1:0] keep = 0;
  logic last = 0;
  logic [31:0] length = 0, crc32 = 0;
  logic check_crc = 0;
  logic [39:0] size = 0;
  logic [31:0] beats = 0;
  // Whether the output had to wait in the last cycle.
  logic beat_waited = 0, status_waited = 0;

  wire [7:0] fault = length[31:24];
  wire third = beats == 3;

  assign s_cmd_ready = !rst && state == IDLE;
  assign s_axis_tready = !rst && state == MOVING && (!full || m_axis_tready)
      && !(fault == HANG && third) && !(fault == TOO_MUCH && third);

  wire beat_withdrawn = fault == WITHDRAWN_BEAT && third && beat_waited;
  wire beat_uncommanded = !rst && fault == UNCOMMANDED_BEAT && state == IDLE;
  wire endless = fault == TOO_MUCH && third;
  wire valid_in_reset = fault == VALID_IN_RESET && rst;
  assign m_axis_tvalid =
      (!rst && (full || endless) && !beat_withdrawn) || beat_uncommanded || valid_in_reset;
  assign m_axis_tdata[8*`SECTOR_BYTES-1:1] = data[8*`SECTOR_BYTES-1:1];
  assign m_axis_tdata[0] = data[0] ^ (fault == CHANGED_DATA && third && beat_waited);
  wire [`SECTOR_BYTES-1:0] ones = '1;
  assign m_axis_tkeep =
      (fault == TORN_BEAT && third) || (fault == CHANGED_KEEP && third && beat_waited) ? ones >> 1 :
      fault == KEEP_HOLES && third ? ~(ones ^ (ones >> 1) ^ 2) : keep;
  assign m_axis_tlast = last ^ (fault == CHANGED_LAST && third && beat_waited);

  assign m_sts_valid =
      (!rst && state == TELLING && !(fault == WITHDRAWN_STATUS && status_waited)) ||
      (!rst && fault == UNCOMMANDED_STATUS && state == IDLE);
  assign m_sts_status = {3'b0, check_crc};
  assign m_sts_offset = {8'b0, length} + 40'(fault == CHANGED_STATUS && status_waited);
  assign m_sts_out_size = size + 40'(fault == WRONG_SIZE);
  assign m_sts_crc32 = crc32;

  always_ff @(posedge clk) begin
    if (fault == ASSERTION) assert (!third) else $error("the third beat arrived");
    beat_waited <= m_axis_tvalid && !m_axis_tready;
    status_waited <= m_sts_valid && !m_sts_ready;
    if (rst) begin
      state <= IDLE;
      full <= 0;
      beats <= 0;
      length <= 0;
    end else begin
      if (s_cmd_valid && s_cmd_ready) begin
        length <= s_cmd_length;
`ifdef TAKES_CRC
        crc32 <= s_cmd_crc32;
        check_crc <= s_cmd_check_crc;
`endif
        size <= 0;
        beats <= 0;
        state <= MOVING;
      end
      if (m_axis_tvalid && m_axis_tready) begin
        full <= 0;
        if (state == DRAINING) state <= TELLING;
      end
      if (s_axis_tvalid && s_axis_tready) begin
        full <= 1;
        data <= s_axis_tdata;
        keep <= s_axis_tkeep;
        last <= s_axis_tlast;
        size <= size + 40'($countones(s_axis_tkeep));
        beats <= beats + 1;
        if (s_axis_tlast) state <= DRAINING;
      end
      if (m_sts_valid && m_sts_ready) state <= IDLE;
    end
  end
endmodule
