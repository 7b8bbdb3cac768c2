module widths (
  input wire bit,
  input wire [1:0] pair,
  input wire [3:0] a,
  input wire [3:0] b,
  input wire [6:0] wide,
  input wire [15:0] wider,
  input wire [1:0] amount,
  output wire is_pair,
  output wire is_moved,
  output wire [15:0] product,
  output wire [5:0] area,
  output wire [7:0] difference,
  output wire [7:0] inverse,
  output wire [7:0] chosen,
  output wire [7:0] moved,
  output wire all_ones
);
  wire [1:0] bit_minus_pair_0 = bit - pair[0];
  assign difference = bit_minus_pair_0 ^ wide;
  assign moved = (a < b) << amount;
  assign is_pair = bit == pair;
  assign is_moved = a << amount == {3'd0, b};
  assign product = pair * amount ^ wider;
  assign area = (pair + amount) * amount - pair;
  wire [3:0] not_a = ~a;
  assign inverse = not_a + wide;
  wire [4:0] a_plus_b = a + b;
  assign all_ones = &a_plus_b;
  wire [3:0] either = bit ? not_a : b;
  assign chosen = {4'd0, pair[0] ? ~b : a} + (either ^ wide);
endmodule
