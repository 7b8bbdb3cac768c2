// A small system on a chip: a compressing DMA engine between two memories, with its registers and
// its interrupt at the ports, where a processor would be.
//
// The engine comes from `cdma generate engine --units 1 --ip`; its instance below is a copy of
// template/cdma_engine.vh, with the pins left open that this system has no use for.
`timescale 1ns/1ps

module tensor_store #(
  parameter integer MEMORY_BYTES = 32768  // of each of the two memories
) (
  input wire clk,
  input wire rst,
  output wire irq,
  input wire [11:0] s_axil_awaddr,
  input wire s_axil_awvalid,
  output wire s_axil_awready,
  input wire [31:0] s_axil_wdata,
  input wire s_axil_wvalid,
  output wire s_axil_wready,
  output wire [1:0] s_axil_bresp,
  output wire s_axil_bvalid,
  input wire s_axil_bready,
  input wire [11:0] s_axil_araddr,
  input wire s_axil_arvalid,
  output wire s_axil_arready,
  output wire [31:0] s_axil_rdata,
  output wire [1:0] s_axil_rresp,
  output wire s_axil_rvalid,
  input wire s_axil_rready
);
  // The accelerator's memory, where tensors are.
  wire device_awid, device_awvalid, device_awready;
  wire [39:0] device_awaddr;
  wire [7:0] device_awlen;
  wire [2:0] device_awsize;
  wire [1:0] device_awburst;
  wire [255:0] device_wdata;
  wire [31:0] device_wstrb;
  wire device_wlast, device_wvalid, device_wready;
  wire device_bid, device_bvalid, device_bready;
  wire [1:0] device_bresp;
  wire device_arid, device_arvalid, device_arready;
  wire [39:0] device_araddr;
  wire [7:0] device_arlen;
  wire [2:0] device_arsize;
  wire [1:0] device_arburst;
  wire device_rid, device_rlast, device_rvalid, device_rready;
  wire [255:0] device_rdata;
  wire [1:0] device_rresp;

  // The host's memory, where they are kept compressed; descriptors and records are there, too.
  wire [1:0] host_awid, host_awburst;
  wire [63:0] host_awaddr;
  wire [7:0] host_awlen;
  wire [2:0] host_awsize;
  wire host_awvalid, host_awready;
  wire [255:0] host_wdata;
  wire [31:0] host_wstrb;
  wire host_wlast, host_wvalid, host_wready;
  wire [1:0] host_bid, host_bresp;
  wire host_bvalid, host_bready;
  wire [1:0] host_arid, host_arburst;
  wire [63:0] host_araddr;
  wire [7:0] host_arlen;
  wire [2:0] host_arsize;
  wire host_arvalid, host_arready;
  wire [1:0] host_rid, host_rresp;
  wire [255:0] host_rdata;
  wire host_rlast, host_rvalid, host_rready;

  cdma_engine engine (
    .clk(clk), .rst(rst), .irq(irq),
    .s_axil_awaddr(s_axil_awaddr), .s_axil_awprot(3'b000),
    .s_axil_awvalid(s_axil_awvalid), .s_axil_awready(s_axil_awready),
    .s_axil_wdata(s_axil_wdata), .s_axil_wstrb(4'b1111),
    .s_axil_wvalid(s_axil_wvalid), .s_axil_wready(s_axil_wready),
    .s_axil_bresp(s_axil_bresp), .s_axil_bvalid(s_axil_bvalid), .s_axil_bready(s_axil_bready),
    .s_axil_araddr(s_axil_araddr), .s_axil_arprot(3'b000),
    .s_axil_arvalid(s_axil_arvalid), .s_axil_arready(s_axil_arready),
    .s_axil_rdata(s_axil_rdata), .s_axil_rresp(s_axil_rresp),
    .s_axil_rvalid(s_axil_rvalid), .s_axil_rready(s_axil_rready),
    .m_axi_mem0_awid(device_awid), .m_axi_mem0_awaddr(device_awaddr),
    .m_axi_mem0_awlen(device_awlen), .m_axi_mem0_awsize(device_awsize),
    .m_axi_mem0_awburst(device_awburst), .m_axi_mem0_awvalid(device_awvalid),
    .m_axi_mem0_awready(device_awready),
    .m_axi_mem0_wdata(device_wdata), .m_axi_mem0_wstrb(device_wstrb),
    .m_axi_mem0_wlast(device_wlast), .m_axi_mem0_wvalid(device_wvalid),
    .m_axi_mem0_wready(device_wready),
    .m_axi_mem0_bid(device_bid), .m_axi_mem0_bresp(device_bresp),
    .m_axi_mem0_bvalid(device_bvalid), .m_axi_mem0_bready(device_bready),
    .m_axi_mem0_arid(device_arid), .m_axi_mem0_araddr(device_araddr),
    .m_axi_mem0_arlen(device_arlen), .m_axi_mem0_arsize(device_arsize),
    .m_axi_mem0_arburst(device_arburst), .m_axi_mem0_arvalid(device_arvalid),
    .m_axi_mem0_arready(device_arready),
    .m_axi_mem0_rid(device_rid), .m_axi_mem0_rdata(device_rdata), .m_axi_mem0_rresp(device_rresp),
    .m_axi_mem0_rlast(device_rlast), .m_axi_mem0_rvalid(device_rvalid),
    .m_axi_mem0_rready(device_rready),
    .m_axi_mem0_awlock(), .m_axi_mem0_awcache(), .m_axi_mem0_awprot(), .m_axi_mem0_awqos(),
    .m_axi_mem0_arlock(), .m_axi_mem0_arcache(), .m_axi_mem0_arprot(), .m_axi_mem0_arqos(),
    .m_axi_host_awid(host_awid), .m_axi_host_awaddr(host_awaddr), .m_axi_host_awlen(host_awlen),
    .m_axi_host_awsize(host_awsize), .m_axi_host_awburst(host_awburst),
    .m_axi_host_awvalid(host_awvalid), .m_axi_host_awready(host_awready),
    .m_axi_host_wdata(host_wdata), .m_axi_host_wstrb(host_wstrb), .m_axi_host_wlast(host_wlast),
    .m_axi_host_wvalid(host_wvalid), .m_axi_host_wready(host_wready),
    .m_axi_host_bid(host_bid), .m_axi_host_bresp(host_bresp), .m_axi_host_bvalid(host_bvalid),
    .m_axi_host_bready(host_bready),
    .m_axi_host_arid(host_arid), .m_axi_host_araddr(host_araddr), .m_axi_host_arlen(host_arlen),
    .m_axi_host_arsize(host_arsize), .m_axi_host_arburst(host_arburst),
    .m_axi_host_arvalid(host_arvalid), .m_axi_host_arready(host_arready),
    .m_axi_host_rid(host_rid), .m_axi_host_rdata(host_rdata), .m_axi_host_rresp(host_rresp),
    .m_axi_host_rlast(host_rlast), .m_axi_host_rvalid(host_rvalid),
    .m_axi_host_rready(host_rready),
    .m_axi_host_awlock(), .m_axi_host_awcache(), .m_axi_host_awprot(), .m_axi_host_awqos(),
    .m_axi_host_arlock(), .m_axi_host_arcache(), .m_axi_host_arprot(), .m_axi_host_arqos()
  );

  axi_ram #(.ADDRESS_BITS(40), .BYTES(32), .ID_BITS(1), .SIZE(MEMORY_BYTES)) device_ram (
    .clk(clk), .rst(rst),
    .awid(device_awid), .awaddr(device_awaddr), .awlen(device_awlen), .awsize(device_awsize),
    .awburst(device_awburst), .awvalid(device_awvalid), .awready(device_awready),
    .wdata(device_wdata), .wstrb(device_wstrb), .wlast(device_wlast), .wvalid(device_wvalid),
    .wready(device_wready),
    .bid(device_bid), .bresp(device_bresp), .bvalid(device_bvalid), .bready(device_bready),
    .arid(device_arid), .araddr(device_araddr), .arlen(device_arlen), .arsize(device_arsize),
    .arburst(device_arburst), .arvalid(device_arvalid), .arready(device_arready),
    .rid(device_rid), .rdata(device_rdata), .rresp(device_rresp), .rlast(device_rlast),
    .rvalid(device_rvalid), .rready(device_rready)
  );

  axi_ram #(.ADDRESS_BITS(64), .BYTES(32), .ID_BITS(2), .SIZE(MEMORY_BYTES)) host_ram (
    .clk(clk), .rst(rst),
    .awid(host_awid), .awaddr(host_awaddr), .awlen(host_awlen), .awsize(host_awsize),
    .awburst(host_awburst), .awvalid(host_awvalid), .awready(host_awready),
    .wdata(host_wdata), .wstrb(host_wstrb), .wlast(host_wlast), .wvalid(host_wvalid),
    .wready(host_wready),
    .bid(host_bid), .bresp(host_bresp), .bvalid(host_bvalid), .bready(host_bready),
    .arid(host_arid), .araddr(host_araddr), .arlen(host_arlen), .arsize(host_arsize),
    .arburst(host_arburst), .arvalid(host_arvalid), .arready(host_arready),
    .rid(host_rid), .rdata(host_rdata), .rresp(host_rresp), .rlast(host_rlast),
    .rvalid(host_rvalid), .rready(host_rready)
  );
endmodule
