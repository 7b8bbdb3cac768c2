module fields (
  input wire [2:0] wanted,
  input wire [7:0] values,
  output wire [1:0] o_place,
  output wire [3:0] o_value
);
  assign o_place = wanted[0] ? 2'd1 : 2'd2;
  assign o_value = wanted[2] && o_place == 2'd2 ? values[7:4] : wanted[1] && o_place == 2'd1 ?
      values[3:0] : 4'd0;
endmodule
