#version 460
// 3x3 convolution of 64 channels of 56 x 56, padded by one: a work-group computes 8 x 8 elements of 4 channels from the
// 10 x 10 elements of an input channel that it keeps in its own memory.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Arguments { Floats y, x, w; };
layout(push_constant) uniform Push { Arguments args; };

shared float tile[10][10], weight[4][9];

void main() {
  uint item = gl_LocalInvocationID.x, column = item % 8, row = item / 8 % 8, part = item / 64;
  uint group = gl_WorkGroupID.x, x0 = group % 7 * 8, y0 = group / 7 % 7 * 8, channel = group / 49 * 4;
  float sum = 0;
  for (uint c = 0; c < 64; ++c) {
    if (item < 100) {
      int x = int(x0 + item % 10) - 1, y = int(y0 + item / 10) - 1;
      bool inside = x >= 0 && x < 56 && y >= 0 && y < 56;
      tile[item / 10][item % 10] = inside ? args.x.at[(c * 56 + uint(y)) * 56 + uint(x)] : 0.0;
    }
    if (item < 36) weight[item / 9][item % 9] = args.w.at[((channel + item / 9) * 64 + c) * 9 + item % 9];
    barrier();
    for (uint i = 0; i < 9; ++i) sum += tile[row + i / 3][column + i % 3] * weight[part][i];
    barrier();
  }
  args.y.at[((channel + part) * 56 + y0 + row) * 56 + x0 + column] = sum;
}
