// Ends of valid/ready streams for the bench of @name@, with stalls of a fixed pseudo-random order.
`timescale 1ns/1ps

// Sends the rows of a file, one per transfer. Valid stays, with its row, until it is taken.
module @name@_tb_source #(
  parameter integer WIDTH = 1,
  parameter integer ROWS = 1,
  parameter integer SEED = 1,
  parameter FILE = ""
) (
  input wire clk,
  input wire rst,
  output reg valid,
  input wire ready,
  output reg [WIDTH-1:0] row
);
  reg [WIDTH-1:0] rows [0:ROWS-1];
  integer next;
  reg [31:0] random;

  initial $readmemh(FILE, rows);

  always @(posedge clk) begin
    random <= {random[30:0], random[31] ^ random[21] ^ random[1] ^ random[0]};
    if (rst) begin
      valid <= 1'b0;
      next <= 0;
      random <= SEED;
    end else if (!valid || ready) begin
      // Phases without a stall, so that full throughput is met too.
      valid <= next < ROWS && (random[0] || random[12]);
      if (next < ROWS && (random[0] || random[12])) begin
        row <= rows[next];
        next <= next + 1;
      end
    end
  end
endmodule

// Takes rows and compares each with that of a file. Counts rows and errors: another row, one too
// many, and valid or a row that changes before it is taken. With LATE_END, whose rows have TLAST as
// their uppermost bit, a packet may have its end in one more row of nothing else, not counted.
module @name@_tb_check #(
  parameter integer WIDTH = 1,
  parameter integer ROWS = 1,
  parameter integer SEED = 1,
  parameter FILE = "",
  parameter NAME = "",
  parameter LATE_END = 1'b0
) (
  input wire clk,
  input wire rst,
  input wire valid,
  output reg ready,
  input wire [WIDTH-1:0] row,
  output integer taken,
  output integer errors
);
  reg [WIDTH-1:0] rows [0:ROWS-1];
  reg [31:0] random;
  reg waiting;
  reg [WIDTH-1:0] offered;
  reg ends;  // the next row is but a packet's end
  wire [WIDTH-1:0] end_bit = {1'b1, {(WIDTH-1){1'b0}}};

  initial $readmemh(FILE, rows);

  always @(posedge clk) begin
    random <= {random[30:0], random[31] ^ random[21] ^ random[1] ^ random[0]};
    if (rst) begin
      ready <= 1'b0;
      taken <= 0;
      errors <= 0;
      random <= SEED;
      waiting <= 1'b0;
      ends <= 1'b0;
    end else begin
      ready <= random[3] || random[17];
      waiting <= valid && !ready;
      offered <= row;
      if (valid !== 1'b0 && valid !== 1'b1) begin
        $display("%s: valid is unknown", NAME);
        errors <= errors + 1;
      end else if (waiting && (!valid || row !== offered)) begin
        $display("%s: row %0d changed before it was taken", NAME, taken);
        errors <= errors + 1;
      end else if (valid && ready && LATE_END && !ends && taken < ROWS && |row
          && row === (rows[taken] & ~end_bit) && row !== rows[taken]) begin
        ends <= 1'b1;
      end else if (valid && ready) begin
        taken <= taken + 1;
        ends <= 1'b0;
        if (ends) begin
          if (row !== end_bit) begin
            $display("%s: row %0d is not the last of its packet", NAME, taken);
            errors <= errors + 1;
          end
        end else if (taken >= ROWS) begin
          $display("%s: row %0d, %h, is one too many", NAME, taken, row);
          errors <= errors + 1;
        end else if (row !== rows[taken]) begin
          $display("%s: row %0d is %h, must be %h", NAME, taken, row, rows[taken]);
          errors <= errors + 1;
        end
      end
    end
  end
endmodule
