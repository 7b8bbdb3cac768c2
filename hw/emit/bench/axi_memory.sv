// A memory behind AXI4 ports, for the bench of @name@: one burst each way per port, served in order,
// with stalls of a fixed pseudo-random order. Counts accesses that the engine promises never to make.
`timescale 1ns/1ps

module @name@_tb_memory #(
  parameter integer PORTS = 1,
  parameter integer BYTES = 1,  // per beat
  parameter integer ADDRESS_BITS = 1,
  parameter integer ID_BITS = 1,
  parameter integer SIZE = 1,  // bytes of the memory
  parameter integer LONGEST = 1,  // beats of a burst
  parameter integer SEED = 1,
  parameter FILE = "",
  parameter NAME = ""
) (
  input wire clk,
  input wire rst,
  input wire [PORTS*ID_BITS-1:0] awid,
  input wire [PORTS*ADDRESS_BITS-1:0] awaddr,
  input wire [PORTS*8-1:0] awlen,
  input wire [PORTS*3-1:0] awsize,
  input wire [PORTS*2-1:0] awburst,
  input wire [PORTS-1:0] awvalid,
  output reg [PORTS-1:0] awready,
  input wire [PORTS*8*BYTES-1:0] wdata,
  input wire [PORTS*BYTES-1:0] wstrb,
  input wire [PORTS-1:0] wlast,
  input wire [PORTS-1:0] wvalid,
  output reg [PORTS-1:0] wready,
  output reg [PORTS*ID_BITS-1:0] bid,
  output wire [PORTS*2-1:0] bresp,
  output reg [PORTS-1:0] bvalid,
  input wire [PORTS-1:0] bready,
  input wire [PORTS*ID_BITS-1:0] arid,
  input wire [PORTS*ADDRESS_BITS-1:0] araddr,
  input wire [PORTS*8-1:0] arlen,
  input wire [PORTS*3-1:0] arsize,
  input wire [PORTS*2-1:0] arburst,
  input wire [PORTS-1:0] arvalid,
  output reg [PORTS-1:0] arready,
  output reg [PORTS*ID_BITS-1:0] rid,
  output reg [PORTS*8*BYTES-1:0] rdata,
  output wire [PORTS*2-1:0] rresp,
  output reg [PORTS-1:0] rlast,
  output reg [PORTS-1:0] rvalid,
  input wire [PORTS-1:0] rready,
  output integer errors
);
  assign bresp = {2*PORTS{1'b0}};
  assign rresp = {2*PORTS{1'b0}};

  reg [7:0] bytes [0:SIZE-1];
  initial $readmemh(FILE, bytes);

  reg [31:0] random;
  reg [31:0] read_address [0:PORTS-1];
  reg [8:0] reads_left [0:PORTS-1];
  reg [31:0] write_address [0:PORTS-1];
  reg [8:0] writes_left [0:PORTS-1];
  reg [PORTS-1:0] answering;
  integer p, i;

  // Not INCR, not of whole beats, too long, over a boundary of 4 KiB, or outside of the memory.
  function bad_burst(
    input [ADDRESS_BITS-1:0] address,
    input [7:0] len,
    input [2:0] size,
    input [1:0] burst
  );
    bad_burst = burst !== 2'b01 || (1 << size) !== BYTES || len >= LONGEST
      || address + BYTES * (len + 1) > SIZE
      || (address & 4095) + BYTES * (len + 1) > 4096;
  endfunction

  always @(posedge clk) begin
    random <= {random[30:0], random[31] ^ random[21] ^ random[1] ^ random[0]};
    if (rst) begin
      random <= SEED;
      awready <= {PORTS{1'b0}};
      wready <= {PORTS{1'b0}};
      bvalid <= {PORTS{1'b0}};
      arready <= {PORTS{1'b0}};
      rvalid <= {PORTS{1'b0}};
      answering <= {PORTS{1'b0}};
      errors <= 0;
      for (p = 0; p < PORTS; p = p + 1) begin
        reads_left[p] <= 9'd0;
        writes_left[p] <= 9'd0;
      end
    end else begin
      for (p = 0; p < PORTS; p = p + 1) begin
        // Reads: an address, then its beats, the last one taken before the next address.
        if (arvalid[p] && arready[p]) begin
          arready[p] <= 1'b0;
          rid[p*ID_BITS+:ID_BITS] <= arid[p*ID_BITS+:ID_BITS];
          read_address[p] <= araddr[p*ADDRESS_BITS+:ADDRESS_BITS] / BYTES * BYTES;
          reads_left[p] <= arlen[p*8+:8] + 9'd1;
          if (bad_burst(araddr[p*ADDRESS_BITS+:ADDRESS_BITS] / BYTES * BYTES, arlen[p*8+:8],
              arsize[p*3+:3], arburst[p*2+:2])) begin
            $display("%s: port %0d reads %0d beats at %h", NAME, p, arlen[p*8+:8] + 1,
              araddr[p*ADDRESS_BITS+:ADDRESS_BITS]);
            errors <= errors + 1;
          end
        end else begin
          arready[p] <= reads_left[p] == 0 && (!rvalid[p] || rready[p]) && random[p%32];
        end
        if (!rvalid[p] || rready[p]) begin
          rvalid[p] <= 1'b0;
          if (reads_left[p] != 0 && (random[(p+5)%32] || random[(p+9)%32])) begin
            rvalid[p] <= 1'b1;
            rlast[p] <= reads_left[p] == 1;
            for (i = 0; i < BYTES; i = i + 1)
              rdata[(p*BYTES+i)*8+:8] <= bytes[(read_address[p]+i)%SIZE];
            read_address[p] <= read_address[p] + BYTES;
            reads_left[p] <= reads_left[p] - 9'd1;
          end
        end

        // Writes: an address, its beats, an answer.
        if (awvalid[p] && awready[p]) begin
          awready[p] <= 1'b0;
          bid[p*ID_BITS+:ID_BITS] <= awid[p*ID_BITS+:ID_BITS];
          write_address[p] <= awaddr[p*ADDRESS_BITS+:ADDRESS_BITS] / BYTES * BYTES;
          writes_left[p] <= awlen[p*8+:8] + 9'd1;
          if (bad_burst(awaddr[p*ADDRESS_BITS+:ADDRESS_BITS] / BYTES * BYTES, awlen[p*8+:8],
              awsize[p*3+:3], awburst[p*2+:2])) begin
            $display("%s: port %0d writes %0d beats at %h", NAME, p, awlen[p*8+:8] + 1,
              awaddr[p*ADDRESS_BITS+:ADDRESS_BITS]);
            errors <= errors + 1;
          end
        end else begin
          awready[p] <= writes_left[p] == 0 && !answering[p] && random[(p+13)%32];
        end
        if (wvalid[p] && wready[p]) begin
          for (i = 0; i < BYTES; i = i + 1)
            if (wstrb[p*BYTES+i])
              bytes[(write_address[p]+i)%SIZE] <= wdata[(p*BYTES+i)*8+:8];
          write_address[p] <= write_address[p] + BYTES;
          writes_left[p] <= writes_left[p] - 9'd1;
          wready[p] <= writes_left[p] != 1 && random[(p+3)%32];
          answering[p] <= writes_left[p] == 1;
          if (wlast[p] !== (writes_left[p] == 1)) begin
            $display("%s: port %0d has WLAST on another beat", NAME, p);
            errors <= errors + 1;
          end
        end else begin
          wready[p] <= writes_left[p] != 0 && (random[(p+3)%32] || random[(p+7)%32]);
        end
        if (bvalid[p] && bready[p]) begin
          bvalid[p] <= 1'b0;
          answering[p] <= 1'b0;
        end else if (answering[p] && random[(p+17)%32]) begin
          bvalid[p] <= 1'b1;
        end
      end
    end
  end
endmodule
