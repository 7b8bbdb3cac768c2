module machine (
  input wire clk,
  input wire rst,
  input wire go,
  input wire stop,
  input wire [3:0] limit,
  output wire is_busy,
  output reg [3:0] count = 4'd0,
  output wire is_blue
);
  localparam [1:0] COLOR_BLUE = 2'd2;
  localparam [1:0] COLOR_GREEN = 2'd1;
  localparam [1:0] COLOR_RED = 2'd0;
  reg [1:0] color = 2'd0;
  reg [1:0] fsm_state = 2'd0;
  assign is_blue = color == COLOR_BLUE;
  assign is_busy = fsm_state == 2'd0 ? 1'b0 : fsm_state == 2'd1 ? 1'b1 : fsm_state == 2'd2 ? !stop :
      1'b0;

  always @(posedge clk)
    if (rst) color <= COLOR_RED;
    else if (stop) color <= COLOR_RED;
    else
      case (color)
        COLOR_RED: color <= COLOR_GREEN;
        COLOR_GREEN: color <= COLOR_BLUE;
        default: color <= COLOR_RED;
      endcase

  always @(posedge clk)
    if (rst) begin
      count <= 4'd0;
      fsm_state <= 2'd0;
    end else
      case (fsm_state)
        2'd0: if (go) begin
          fsm_state <= 2'd1;
          count <= 4'd0;
        end
        2'd1: begin
          count <= count + 4'd1;
          if (stop) fsm_state <= 2'd0;
          else if (count == limit) fsm_state <= 2'd2;
        end
        2'd2: fsm_state <= 2'd0;
        default: ;
      endcase
endmodule
