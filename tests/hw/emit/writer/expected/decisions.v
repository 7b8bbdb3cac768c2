module decisions (
  input wire clk,
  input wire rst,
  input wire [1:0] kind,
  input wire go,
  input wire clear,
  input wire [3:0] value,
  input wire [3:0] other,
  output reg [3:0] first = 4'd0,
  output reg [3:0] second = 4'd0,
  output reg [3:0] third = 4'd5,
  output reg [3:0] kept = 4'd0,
  output wire [3:0] few,
  output reg [3:0] many
);

  // Rises at time 0, behind all else, so that each always @* runs once.
  reg begun;
  initial begun <= 1'b1;

  assign few = go ? value : clear ? other : 4'd0;

  always @* begin
    if (begun) begin end
    many = 4'd0;
    if (go) begin
      many = value;
      if (clear) many = other;
      else if (value == other) many = first;
    end else if (kind == 2'd3) begin
      many = second;
      if (clear) many = third;
    end
  end

  always @(posedge clk)
    if (rst) begin
      second <= 4'd0;
      first <= 4'd0;
      third <= 4'd5;
    end else begin
      if (go) second <= value;
      if (kind == 2'd1) first <= value;
      else if (kind == 2'd2) third <= other;
      if (value == 4'd3) begin
        first <= first + 4'd1;
        second <= second - 4'd1;
      end
      if (clear) third <= 4'd0;
    end

  always @(posedge clk) begin
    if (go) kept <= other;
    if (clear) kept <= 4'd0;
  end
endmodule
