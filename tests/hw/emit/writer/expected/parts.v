module parts (
  input wire [2:0] place,
  input wire [7:0] value,
  input wire [3:0] number,
  input wire [7:0] mask,
  output wire bit,
  output wire [3:0] word,
  output wire [7:0] rest,
  output wire [1:0] signs
);
  assign signs = number[3:2];
  assign bit = value[place];
  assign word = value[{place[0], 2'd0} +: 4];
  assign rest = value >> place ^ mask;
endmodule
