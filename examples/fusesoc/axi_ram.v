// A memory with an AXI4 port: INCR bursts of whole beats, one each way at a time. What lies behind
// its end is answered with SLVERR.
`timescale 1ns/1ps

module axi_ram #(
  parameter integer ADDRESS_BITS = 32,
  parameter integer BYTES = 32,  // of a beat
  parameter integer ID_BITS = 1,
  parameter integer SIZE = 4096  // bytes
) (
  input wire clk,
  input wire rst,
  input wire [ID_BITS-1:0] awid,
  input wire [ADDRESS_BITS-1:0] awaddr,
  input wire [7:0] awlen,
  input wire [2:0] awsize,
  input wire [1:0] awburst,
  input wire awvalid,
  output wire awready,
  input wire [8*BYTES-1:0] wdata,
  input wire [BYTES-1:0] wstrb,
  input wire wlast,
  input wire wvalid,
  output wire wready,
  output reg [ID_BITS-1:0] bid,
  output reg [1:0] bresp,
  output reg bvalid,
  input wire bready,
  input wire [ID_BITS-1:0] arid,
  input wire [ADDRESS_BITS-1:0] araddr,
  input wire [7:0] arlen,
  input wire [2:0] arsize,
  input wire [1:0] arburst,
  input wire arvalid,
  output wire arready,
  output reg [ID_BITS-1:0] rid,
  output wire [8*BYTES-1:0] rdata,
  output wire [1:0] rresp,
  output wire rlast,
  output wire rvalid,
  input wire rready
);
  localparam [1:0] OKAY = 2'b00, SLVERR = 2'b10;

  reg [7:0] bytes [0:SIZE-1];

  // Reads: an address, then its beats.
  reg reading;
  reg [ADDRESS_BITS-1:0] read_address;
  reg [7:0] reads_left;
  wire read_inside = read_address < SIZE;
  wire [31:0] read_index = read_inside ? read_address[31:0] : 32'd0;
  assign arready = !reading;
  assign rvalid = reading;
  assign rlast = reads_left == 8'd0;
  assign rresp = read_inside ? OKAY : SLVERR;
  genvar i;
  generate
    for (i = 0; i < BYTES; i = i + 1) begin : lane
      assign rdata[8*i+:8] = bytes[read_index + i];
    end
  endgenerate
  always @(posedge clk) begin
    if (arvalid && arready) begin
      reading <= 1'b1;
      read_address <= araddr / BYTES * BYTES;
      reads_left <= arlen;
      rid <= arid;
    end else if (rvalid && rready) begin
      reading <= !rlast;
      read_address <= read_address + BYTES;
      reads_left <= reads_left - 8'd1;
    end
    if (rst) reading <= 1'b0;
  end

  // Writes: an address, its beats, an answer.
  reg writing;
  reg [ADDRESS_BITS-1:0] write_address;
  wire write_inside = write_address < SIZE;
  integer k;
  assign awready = !writing && !bvalid;
  assign wready = writing;
  always @(posedge clk) begin
    if (awvalid && awready) begin
      writing <= 1'b1;
      write_address <= awaddr / BYTES * BYTES;
      bid <= awid;
      bresp <= OKAY;
    end
    if (wvalid && wready) begin
      for (k = 0; k < BYTES; k = k + 1)
        if (wstrb[k] && write_inside) bytes[write_address[31:0] + k] <= wdata[8*k+:8];
      if (!write_inside) bresp <= SLVERR;
      write_address <= write_address + BYTES;
      writing <= !wlast;
      bvalid <= wlast;
    end
    if (bvalid && bready) bvalid <= 1'b0;
    if (rst) begin
      writing <= 1'b0;
      bvalid <= 1'b0;
    end
  end
endmodule
