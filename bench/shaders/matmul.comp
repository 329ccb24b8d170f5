#version 460
// C = A B for square matrices of SIZE, in tiles of 16 x 16 that a work-group keeps in its own memory.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Arguments { Floats c, a, b; };
layout(push_constant) uniform Push { Arguments args; };

shared float left[16][16], right[16][16];

void main() {
  uint x = gl_LocalInvocationID.x % 16, y = gl_LocalInvocationID.x / 16;
  uint column = gl_WorkGroupID.x % (SIZE / 16) * 16 + x, row = gl_WorkGroupID.x / (SIZE / 16) * 16 + y;
  float sum = 0;
  for (uint k = 0; k < SIZE; k += 16) {
    left[y][x] = args.a.at[row * SIZE + k + x];
    right[y][x] = args.b.at[(k + y) * SIZE + column];
    barrier();
    for (uint i = 0; i < 16; ++i) sum += left[y][i] * right[i][x];
    barrier();
  }
  args.c.at[row * SIZE + column] = sum;
}
