module flags (
  input wire clk,
  input wire rst,
  input wire go,
  input wire [1:0] into,
  input wire flag,
  input wire [1:0] place,
  output reg found
);
  reg flags [0:3];

  always @(posedge clk) found <= flags[place];

  always @(posedge clk) if (go) flags[into] <= flag;
endmodule
