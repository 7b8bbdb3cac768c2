// Bench of @name@: descriptors in a ring, carried out between two memories. All of both memories is
// then compared with that of the golden model, records too. Prints PASS, or FAIL behind what differs,
// and then ends with a status that is not 0.
`timescale 1ns/1ps

module @name@_tb;
  localparam integer UNITS = @units@;
  localparam integer DEVICE_SIZE = @device_size@;  // bytes
  localparam integer HOST_SIZE = @host_size@;
  localparam integer STEPS = @steps@;
  localparam integer LONGEST = @longest@;  // cycles that the run may take

  reg clk = 1'b0;
  reg rst = 1'b1;
  always #5 clk = !clk;
@host_clock@@test_enable@
  // The registers: steps of a program, each a write, a read to be compared, or a wait for the
  // interrupt of the ring that has the descriptors.
  localparam [3:0] WRITE = 4'd0, READ = 4'd1, WAIT_FOR_IRQ = 4'd2, WAIT_FOR_NO_IRQ = 4'd3;
  localparam integer ADDRESS_BITS = @address_bits@;
  reg [ADDRESS_BITS+35:0] program_rows [0:STEPS-1];
  initial $readmemh("bench/@name@_program.hex", program_rows);
  integer step;
  reg started;
  wire [3:0] operation = program_rows[step][ADDRESS_BITS+32+:4];
  wire [ADDRESS_BITS-1:0] offset = program_rows[step][32+:ADDRESS_BITS];
  wire [31:0] value = program_rows[step][31:0];
  reg awvalid, wvalid, arvalid;
  wire awready, wready, bvalid, arready, rvalid;
  wire [@rings@-1:0] irqs;
  wire irq = irqs[@ring@];
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;
  integer register_errors;
  always @(posedge clk) begin
    if (rst) begin
      step <= 0;
      started <= 1'b0;
      awvalid <= 1'b0;
      wvalid <= 1'b0;
      arvalid <= 1'b0;
      register_errors <= 0;
    end else if (step < STEPS) begin
      if (awready) awvalid <= 1'b0;
      if (wready) wvalid <= 1'b0;
      if (arready) arvalid <= 1'b0;
      if (!started) begin
        awvalid <= operation == WRITE;
        wvalid <= operation == WRITE;
        arvalid <= operation == READ;
        started <= 1'b1;
      end else if (operation == WRITE ? bvalid : operation == READ ? rvalid
          : irq === (operation == WAIT_FOR_IRQ)) begin
        started <= 1'b0;
        step <= step + 1;
        if (operation == WRITE && bresp !== 2'b00) begin
          $display("registers: the write at %h is answered with %b", offset, bresp);
          register_errors <= register_errors + 1;
        end
        if (operation == READ && {rresp, rdata} !== {2'b00, value}) begin
          $display("registers: %h reads %h with %b, must be %h", offset, rdata, rresp, value);
          register_errors <= register_errors + 1;
        end
      end
    end
  end

@wires@
  integer device_errors, host_errors;
  @name@_tb_memory #(
    .PORTS(UNITS), .BYTES(@sector_bytes@), .ADDRESS_BITS(@device_address_bits@), .ID_BITS(@device_id_bits@),
    .SIZE(DEVICE_SIZE), .LONGEST(@device_burst@), .SEED(32'hbeef), .FILE("bench/@name@_device.hex"),
    .NAME("device")
  ) device (
    .clk(clk), .rst(rst), .errors(device_errors),
@device_ports@
  );
  @name@_tb_memory #(
    .PORTS(1), .BYTES(@host_bytes@), .ADDRESS_BITS(@host_address_bits@), .ID_BITS(@host_id_bits@),
    .SIZE(HOST_SIZE), .LONGEST(@host_burst@), .SEED(32'hcafe), .FILE("bench/@name@_host.hex"),
    .NAME("host")
  ) host (
    @host_clocking@, .errors(host_errors),
@host_ports@
  );

  @name@ dut (
    @clocking@, .irq(irqs),
    .s_axil_awaddr(offset), .s_axil_awprot(3'b000), .s_axil_awvalid(awvalid),
    .s_axil_awready(awready), .s_axil_wdata(value), .s_axil_wstrb(4'b1111),
    .s_axil_wvalid(wvalid), .s_axil_wready(wready), .s_axil_bresp(bresp), .s_axil_bvalid(bvalid),
    .s_axil_bready(1'b1), .s_axil_araddr(offset), .s_axil_arprot(3'b000),
    .s_axil_arvalid(arvalid), .s_axil_arready(arready), .s_axil_rdata(rdata),
    .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(1'b1),
@dut_ports@
  );

  // A byte of a memory in the end, below a bit that says whether it matters.
  reg [8:0] device_after [0:DEVICE_SIZE-1];
  reg [8:0] host_after [0:HOST_SIZE-1];
  initial $readmemh("bench/@name@_device_after.hex", device_after);
  initial $readmemh("bench/@name@_host_after.hex", host_after);
  integer cycles = 0;
  integer differences = 0;
  integer errors, i;
  always @(posedge clk) begin
    cycles <= cycles + 1;
    if (@reset_over@) rst <= 1'b0;
    if (!rst && (step == STEPS || cycles == LONGEST)) begin
      for (i = 0; i < DEVICE_SIZE; i = i + 1)
        if (device_after[i][8] && device.bytes[i] !== device_after[i][7:0]) begin
          if (differences < 16)
            $display("device: byte %h is %h, must be %h", i, device.bytes[i], device_after[i][7:0]);
          differences = differences + 1;
        end
      for (i = 0; i < HOST_SIZE; i = i + 1)
        if (host_after[i][8] && host.bytes[i] !== host_after[i][7:0]) begin
          if (differences < 16)
            $display("host: byte %h is %h, must be %h", i, host.bytes[i], host_after[i][7:0]);
          differences = differences + 1;
        end
      errors = register_errors + device_errors + host_errors;
      if (step == STEPS && differences == 0 && errors == 0) begin
        $display("PASS: @name@, @descriptors@ descriptors, %0d cycles", cycles);
        $finish;
      end else begin
        $display("FAIL: @name@, %0d of %0d steps, %0d bytes differ, %0d errors, %0d cycles", step, STEPS,
          differences, errors, cycles);
        $fatal(1);
      end
    end
  end
endmodule
