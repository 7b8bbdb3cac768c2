module shared (
  input wire [3:0] a,
  input wire [3:0] b,
  input wire [3:0] c,
  output wire [4:0] once,
  output wire [1:0] twice,
  output wire [3:0] parts,
  output wire [5:0] overlapping,
  output wire [11:0] often
);
  assign once = a - b;
  assign twice = {a == b || c[1], a == b && c[0]};
  assign parts = {a[1:0] | b[1:0], a[3:2] | b[3:2]};
  wire [3:0] b_and_c = b & c;
  assign overlapping = {b_and_c[3:1], b_and_c[2:0]};
  wire [3:0] a_plus_c = a + c;
  assign often = {~a_plus_c, a_plus_c & b, a_plus_c ^ b};
endmodule
