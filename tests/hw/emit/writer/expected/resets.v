module resets (
  input wire clk,
  input wire rst,
  input wire [3:0] i,
  input wire go,
  output reg [3:0] either = 4'd0,
  output reg [3:0] parts = 4'd0
);

  always @(posedge clk)
    if (rst) either <= 4'd0;
    else if (go) either <= i;

  always @(posedge clk) begin
    if (go) parts <= i;
    parts[0] <= i[1];
  end
endmodule
