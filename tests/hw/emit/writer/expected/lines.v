module lines (
  input wire [95:0] values,
  input wire [3:0] chosen,
  output wire [7:0] mixed,
  output wire [95:0] joined,
  output wire is_any
);
  assign joined = {values[87:80], values[31:24], values[71:64], values[15:8], values[55:48],
      values[95:88], values[39:32], values[79:72], values[23:16], values[63:56], values[7:0],
      values[47:40]};
  wire [7:0] mixed_or = ((((values[7:0] ^ chosen) & values[15:8] | values[15:8]) & values[23:16] |
      values[23:16] ^ 8'd1) & values[31:24] | values[31:24] ^ 8'd2) & values[39:32] | values[39:32]
      ^ 8'd3;
  wire [7:0] mixed_or_1 =
      (((mixed_or & values[47:40] | values[47:40] ^ 8'd4) & values[55:48] | values[55:48] ^ 8'd5) &
      values[63:56] | values[63:56] ^ 8'd6) & values[71:64] | values[71:64] ^ 8'd7;
  assign mixed = ((mixed_or_1 & values[79:72] | values[79:72] ^ 8'd8) & values[87:80] |
      values[87:80] ^ 8'd9) & values[95:88] | values[95:88] ^ 8'd10;
  assign is_any = {values[95:88] == chosen, values[87:80] == chosen, values[79:72] == chosen,
      values[71:64] == chosen, values[63:56] == chosen, values[55:48] == chosen,
      values[47:40] == chosen, values[39:32] == chosen, values[31:24] == chosen,
      values[23:16] == chosen, values[15:8] == chosen, values[7:0] == chosen} != 12'd0;
endmodule
