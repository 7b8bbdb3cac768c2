// Bench of @name@: @packets@ packets with their commands, and what must come of them, from the
// golden model. Prints PASS, or FAIL behind what differs, and then ends with a status that is not 0.
`timescale 1ns/1ps

module @name@_tb;
  localparam integer BYTES = @bytes@;  // per beat
  localparam integer BEATS_IN = @beats_in@;
  localparam integer BEATS_OUT = @beats_out@;
  localparam integer PACKETS = @packets@;
  localparam integer LONGEST = @longest@;  // cycles that the run may take

  reg clk = 1'b0;
  reg rst = 1'b1;
  always #5 clk = !clk;

  wire cmd_valid, cmd_ready;
  wire [@command_bits@-1:0] cmd;
  @name@_tb_source #(.WIDTH(@command_bits@), .ROWS(PACKETS), .SEED(32'h1),
    .FILE("bench/@name@_commands.hex")) commands (
    .clk(clk), .rst(rst), .valid(cmd_valid), .ready(cmd_ready), .row(cmd));

  wire in_valid, in_ready;
  wire [9*BYTES:0] in;  // last, keep, data
  @name@_tb_source #(.WIDTH(9*BYTES+1), .ROWS(BEATS_IN), .SEED(32'hbeef),
    .FILE("bench/@name@_input.hex")) source (
    .clk(clk), .rst(rst), .valid(in_valid), .ready(in_ready), .row(in));

  wire out_valid, out_ready, out_last;
  wire [BYTES-1:0] out_keep;
  wire [8*BYTES-1:0] out_data;
  // Bytes that TKEEP leaves out may be anything.
  wire [8*BYTES-1:0] kept;
  genvar i;
  generate
    for (i = 0; i < BYTES; i = i + 1) begin : keep
      assign kept[8*i+:8] = out_keep[i] ? out_data[8*i+:8] : 8'h00;
    end
  endgenerate
  integer beats_taken, beat_errors;
  @name@_tb_check #(.WIDTH(9*BYTES+1), .ROWS(BEATS_OUT), .SEED(32'hcafe),
    .FILE("bench/@name@_output.hex"), .NAME("m_axis"), .LATE_END(1'b1)) sink (
    .clk(clk), .rst(rst), .valid(out_valid), .ready(out_ready), .row({out_last, out_keep, kept}),
    .taken(beats_taken), .errors(beat_errors));

  wire sts_valid, sts_ready;
  wire [@status_bits@-1:0] sts;
  integer statuses_taken, status_errors;
  @name@_tb_check #(.WIDTH(@status_bits@), .ROWS(PACKETS), .SEED(32'hf00d),
    .FILE("bench/@name@_status.hex"), .NAME("m_sts")) statuses (
    .clk(clk), .rst(rst), .valid(sts_valid), .ready(sts_ready), .row(sts),
    .taken(statuses_taken), .errors(status_errors));

  @name@ dut (
    .clk(clk), @reset@,
    .s_cmd_valid(cmd_valid), .s_cmd_ready(cmd_ready),
@command_ports@
    .s_axis_tvalid(in_valid), .s_axis_tready(in_ready), .s_axis_tdata(in[0+:8*BYTES]),
    .s_axis_tkeep(in[8*BYTES+:BYTES]), .s_axis_tlast(in[9*BYTES]),
    .m_axis_tvalid(out_valid), .m_axis_tready(out_ready), .m_axis_tdata(out_data),
    .m_axis_tkeep(out_keep), .m_axis_tlast(out_last),
@status_ports@
    .m_sts_valid(sts_valid), .m_sts_ready(sts_ready)
  );

  integer cycles = 0;
  integer quiet = 0;  // cycles since the last packet ended: for rows that are too many
  always @(posedge clk) begin
    cycles <= cycles + 1;
    if (cycles == 4) rst <= 1'b0;
    if (!rst && beats_taken >= BEATS_OUT && statuses_taken >= PACKETS) quiet <= quiet + 1;
    if (quiet == 200 || cycles == LONGEST) begin
      if (quiet == 200 && beat_errors == 0 && status_errors == 0) begin
        $display("PASS: @name@, %0d packets, %0d beats, %0d cycles", statuses_taken, beats_taken,
          cycles);
        $finish;
      end else begin
        $display("FAIL: @name@, %0d of %0d beats with %0d errors, %0d of %0d records with %0d, %0d cycles",
          beats_taken, BEATS_OUT, beat_errors, statuses_taken, PACKETS, status_errors, cycles);
        $fatal(1);
      end
    end
  end
endmodule
