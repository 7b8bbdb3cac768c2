module delays (
  input wire clk,
  input wire rst,
  input wire go,
  input wire [74:0] i,
  output wire [74:0] o,
  output wire [1:0] is_full
);
  wire [4:0] narrow_o;
  wire narrow_is_full;
  wire [69:0] broad_o;
  wire broad_is_full;
  assign o = {broad_o, narrow_o};
  assign is_full = {broad_is_full, narrow_is_full};

  delays_delay #(.WIDTH(5)) narrow (
    .clk(clk), .rst(rst), .go(go), .i(i[4:0]), .o(narrow_o),
    .is_full(narrow_is_full));

  delays_delay #(.WIDTH(70)) broad (
    .clk(clk), .rst(rst), .go(go), .i(i[74:5]), .o(broad_o),
    .is_full(broad_is_full));
endmodule

module delays_delay #(
  parameter WIDTH = 5
) (
  input wire clk,
  input wire rst,
  input wire go,
  input wire [WIDTH-1:0] i,
  output reg [WIDTH-1:0] o = {WIDTH{1'b0}},
  output wire is_full
);
  assign is_full = o == {WIDTH{1'b1}};

  always @(posedge clk)
    if (rst) o <= {WIDTH{1'b0}};
    else if (go) o <= i;
endmodule
