// What software does with the system: a tensor goes from the accelerator's memory into the host's,
// compressed, and comes back to another place. Prints PASS, or FAIL and what is wrong, and then ends
// with a status that is not 0. The tensor, its stream and what came back are left in files.
`timescale 1ns/1ps

module tensor_store_tb;
  localparam integer LENGTH = 3000;  // bytes of the tensor: 23 lines and a part of one
  localparam integer PLACES = 4096;  // bytes that are looked at behind each place

  // In the accelerator's memory.
  localparam integer SOURCE = 'h0040, RESTORED = 'h4040;
  // In the host's memory: a ring of two descriptors, their records, and the stream.
  localparam integer RING = 'h0000, RECORDS = 'h0800, STREAM = 'h1004;

  // Registers and what descriptors and records hold: include/ of the engine's folder has all of it.
  localparam [11:0] ID = 12'h000, CONTROL = 12'h010, RING_BASE_LO = 12'h020, RING_SIZE = 12'h028,
    RING_TAIL = 12'h02c, IRQ_STATUS = 12'h040, IRQ_ENABLE = 12'h044;
  localparam [7:0] COMPRESS_OUT = 8'd1, DECOMPRESS_IN = 8'd2;  // opcodes
  localparam [7:0] INTERRUPT = 8'd1, CHECK_CRC = 8'd2;  // flags
  localparam [7:0] OK = 8'd1;  // status
  localparam [7:0] GUARD = 8'ha5;  // where nothing is to be written

  reg clk = 1'b0;
  reg rst = 1'b1;
  always #5 clk = !clk;

  wire irq;
  reg [11:0] address = 12'd0;
  reg [31:0] value = 32'd0;
  reg awvalid = 1'b0, wvalid = 1'b0, arvalid = 1'b0;
  wire awready, wready, bvalid, arready, rvalid;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;
  tensor_store soc (
    .clk(clk), .rst(rst), .irq(irq),
    .s_axil_awaddr(address), .s_axil_awvalid(awvalid), .s_axil_awready(awready),
    .s_axil_wdata(value), .s_axil_wvalid(wvalid), .s_axil_wready(wready),
    .s_axil_bresp(bresp), .s_axil_bvalid(bvalid), .s_axil_bready(1'b1),
    .s_axil_araddr(address), .s_axil_arvalid(arvalid), .s_axil_arready(arready),
    .s_axil_rdata(rdata), .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(1'b1)
  );

  integer cycles = 0;
  always @(posedge clk) begin
    cycles <= cycles + 1;
    if (cycles == 20000) fail("nothing more comes");
  end

  task fail(input [8*40-1:0] why);
    begin
      $display("FAIL after %0d cycles: %0s", cycles, why);
      $fatal(1);
    end
  endtask

  // Each ends at the clock edge at which its answer is taken.
  task write_register(input [11:0] offset, input [31:0] word);
    begin
      address <= offset;
      value <= word;
      awvalid <= 1'b1;
      wvalid <= 1'b1;
      @(posedge clk);
      while (bvalid !== 1'b1) begin
        if (awready) awvalid <= 1'b0;
        if (wready) wvalid <= 1'b0;
        @(posedge clk);
      end
      if (bresp != 2'b00) fail("a register refuses a write");
    end
  endtask

  task read_register(input [11:0] offset, output [31:0] word);
    begin
      address <= offset;
      arvalid <= 1'b1;
      @(posedge clk);
      while (rvalid !== 1'b1) begin
        if (arready) arvalid <= 1'b0;
        @(posedge clk);
      end
      word = rdata;
      if (rresp != 2'b00) fail("a register refuses a read");
    end
  endtask

  // A field of a descriptor or a record in the host's memory, little-endian.
  task put(input integer at, input integer size, input [63:0] number);
    integer n;
    for (n = 0; n < size; n = n + 1) soc.host_ram.bytes[at+n] = number[8*n+:8];
  endtask

  function [63:0] get(input integer at, input integer size);
    integer n;
    begin
      get = 64'd0;
      for (n = 0; n < size; n = n + 1) get[8*n+:8] = soc.host_ram.bytes[at+n];
    end
  endfunction

  // Descriptor `number` of the ring, the doorbell, and the interrupt; its record must say OK.
  task carry_out(
    input integer number,
    input [7:0] opcode,
    input [7:0] flags,
    input [63:0] src,
    input [63:0] dst,
    input [63:0] capacity,
    input [63:0] src_length,
    input [31:0] crc32
  );
    integer at, n;
    reg [31:0] status;
    begin
      at = RING + 64 * number;
      for (n = 0; n < 64; n = n + 1) put(at + n, 1, 64'd0);
      put(at, 1, opcode);
      put(at + 2, 1, 64'd4);  // bytes of an element
      put(at + 3, 1, flags | INTERRUPT);
      put(at + 8, 8, src);
      put(at + 16, 8, dst);
      put(at + 24, 4, LENGTH);
      put(at + 28, 4, crc32);
      put(at + 32, 8, capacity);
      put(at + 40, 8, src_length);
      put(at + 48, 8, RECORDS + 64 * number);
      write_register(RING_TAIL, number + 1);
      while (irq !== 1'b1) @(posedge clk);
      read_register(IRQ_STATUS, status);
      if (status != 32'd1) fail("an error interrupt");
      write_register(IRQ_STATUS, 32'd1);
      if (get(RECORDS + 64 * number, 1) != OK) fail("a record is not OK");
    end
  endtask

  integer i, size, seed;
  reg [31:0] word;
  initial begin
    for (i = 0; i < soc.MEMORY_BYTES; i = i + 1) begin
      soc.device_ram.bytes[i] = GUARD;
      soc.host_ram.bytes[i] = GUARD;
    end
    // Two of five words are not zero.
    seed = 1;
    for (i = 0; i < LENGTH; i = i + 4) begin
      word = $random(seed);
      if (word % 5 >= 2) word = 32'd0;
      {soc.device_ram.bytes[SOURCE+i+3], soc.device_ram.bytes[SOURCE+i+2],
       soc.device_ram.bytes[SOURCE+i+1], soc.device_ram.bytes[SOURCE+i]} = word;
    end
    repeat (4) @(posedge clk);
    rst <= 1'b0;
    @(posedge clk);

    read_register(ID, word);
    if (word != "CDMA") fail("this is no such engine");
    write_register(RING_BASE_LO, RING);
    write_register(RING_SIZE, 32'd1);  // two descriptors
    write_register(IRQ_ENABLE, 32'd7);
    write_register(CONTROL, 32'd1);

    // Out: the record tells how long the stream is, and the CRC-32 of the tensor.
    carry_out(0, COMPRESS_OUT, 8'd0, SOURCE, STREAM, PLACES, 64'd0, 32'd0);
    size = get(RECORDS + 16, 8);
    if (size == 0 || size >= LENGTH) fail("the stream is not shorter");
    for (i = size; i < PLACES; i = i + 1)
      if (soc.host_ram.bytes[STREAM+i] != GUARD) fail("written behind the stream");

    // Back.
    carry_out(1, DECOMPRESS_IN, CHECK_CRC, STREAM, RESTORED, LENGTH, size, get(RECORDS + 32, 4));
    for (i = 0; i < LENGTH; i = i + 1)
      if (soc.device_ram.bytes[RESTORED+i] !== soc.device_ram.bytes[SOURCE+i])
        fail("another tensor came back");
    for (i = LENGTH; i < PLACES; i = i + 1)
      if (soc.device_ram.bytes[RESTORED+i] != GUARD) fail("written behind the tensor");

    $writememh("tensor.hex", soc.device_ram.bytes, SOURCE, SOURCE + LENGTH - 1);
    $writememh("stream.hex", soc.host_ram.bytes, STREAM, STREAM + size - 1);
    $writememh("restored.hex", soc.device_ram.bytes, RESTORED, RESTORED + LENGTH - 1);
    $display("PASS: %0d bytes, %0d in the host's memory, and back: %0d cycles", LENGTH, size, cycles);
    $finish;
  end
endmodule
