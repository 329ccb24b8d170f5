#version 460
// Softmax over rows of 1024: one work-group of 256 for each row, which reads its row once.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Arguments { Floats y, x; };
layout(push_constant) uniform Push { Arguments args; };

shared float part[256];

void main() {
  uint item = gl_LocalInvocationID.x, row = gl_WorkGroupID.x * 1024;
  float value[4], most = -1e38;
  for (uint i = 0; i < 4; ++i) {
    value[i] = args.x.at[row + i * 256 + item];
    most = max(most, value[i]);
  }
  part[item] = most;
  barrier();
  for (uint n = 128; n > 0; n /= 2) {
    if (item < n) part[item] = max(part[item], part[item + n]);
    barrier();
  }
  most = part[0];
  barrier();
  float sum = 0;
  for (uint i = 0; i < 4; ++i) {
    value[i] = exp(value[i] - most);
    sum += value[i];
  }
  part[item] = sum;
  barrier();
  for (uint n = 128; n > 0; n /= 2) {
    if (item < n) part[item] += part[item + n];
    barrier();
  }
  for (uint i = 0; i < 4; ++i) args.y.at[row + i * 256 + item] = value[i] / part[0];
}
