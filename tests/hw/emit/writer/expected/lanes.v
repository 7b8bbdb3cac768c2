module lanes (
  input wire [3:0] k,
  input wire [39:0] data,
  output wire [39:0] kept
);
  genvar k_1;
  for (k_1 = 0; k_1 < 10; k_1 = k_1 + 1) begin : kept_parts
    assign kept[4*k_1 +: 4] = k > k_1 ? data[4*k_1 +: 4] : 4'd0;
  end
endmodule
