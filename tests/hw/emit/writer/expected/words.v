module words (
  input wire clk,
  input wire rst,
  input wire go,
  input wire [1:0] into,
  input wire [1:0] word,
  input wire [1:0] place,
  output reg [1:0] found
);
  reg [1:0] words [0:2];

  always @(posedge clk) found <= words[place];

  always @(posedge clk) if (go) words[into] <= word;
endmodule
