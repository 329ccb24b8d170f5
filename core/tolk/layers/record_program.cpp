// The layer `record`: programs, launches and graphs.
#include "tolk/layers/record.h"

namespace tolk::recording {

std::string kernel_bytes(const tolk_kernel_ir& ir) {
  Payload p;
  p.number(ir.version).raw(ir.ops, ir.op_count).raw(ir.sources, ir.source_count).raw(ir.attrs, ir.attr_count);
  p.raw(ir.params, ir.param_count).text(ir.name);
  return p.bytes();
}

tolk_status RecordLayer::program_load(tolk_device* device, tolk_bytes binary, const tolk_source* source,
                                      tolk_program** out) {
  auto lock = hold();
  tolk_status status = next->program_load(device, binary, source, out);
  auto d = devices_.find(device);
  if (status != TOLK_OK || !*out || d == devices_.end()) return status;
  const uint32_t target = source->target_index;
  const bool listed = target < d->second.target_kinds.size();
  const bool direct = listed && (d->second.target_flags[target] & TOLK_TARGET_LOAD_DIRECT);
  const bool ir = direct && d->second.target_kinds[target] == TOLK_TARGET_KERNEL_IR;
  const uint64_t block = ir ? r_->data(kernel_bytes(*static_cast<const tolk_kernel_ir*>(source->text.data)))
                            : r_->data({static_cast<const char*>(binary.data), binary.size});
  ProgramState state{r_->object(), {source->params, source->params + source->param_count}};
  r_->write(Kind::ProgramLoad, call()
                                   .number(state.number)
                                   .number(d->second.number)
                                   .number(block)
                                   .number(ir       ? 2
                                           : direct ? 1
                                                    : 0)
                                   .number(target)
                                   .text(source->entry)
                                   .text(source->options)
                                   .raw(source->params, source->param_count)
                                   .number(source->flags)
                                   .sizes(source->local)
                                   .number(source->shared_bytes));
  programs_.insert_or_assign(*out, std::move(state));
  return status;
}

void RecordLayer::program_unload(tolk_program* program) {
  auto lock = hold();
  r_->write(Kind::ProgramUnload, call().number(number(programs_, program)));
  programs_.erase(program);
  std::erase_if(kernels_, [&](const auto& k) { return k.second.program == program; });
  next->program_unload(program);
}

tolk_status RecordLayer::program_get_kernel(tolk_program* program, const char* name, tolk_kernel** out) {
  auto lock = hold();
  tolk_status status = next->program_get_kernel(program, name, out);
  auto p = programs_.find(program);
  if (status != TOLK_OK || !*out || p == programs_.end() || kernels_.contains(*out)) return status;
  KernelState state{r_->object(), program, p->second.params};
  r_->write(Kind::GetKernel, call().number(state.number).number(p->second.number).text(name));
  kernels_.insert_or_assign(*out, std::move(state));
  return status;
}

Payload& RecordLayer::put_launch(Payload& p, const tolk_launch& l) {
  p.number(l.flags).number(l.shared_bytes).sizes(l.grid).sizes(l.local).number(l.buffer_count);
  for (uint32_t i = 0; i < l.buffer_count; i++) p.ref(ref(l.buffers[i]));
  p.number(l.value_count);
  for (uint32_t i = 0; i < l.value_count; i++) p.number(l.values[i]);
  return p;
}

tolk_status RecordLayer::program_launch(tolk_stream* stream, tolk_kernel* kernel, const tolk_launch* launch) {
  auto lock = hold();
  for (uint32_t i = 0; i < launch->buffer_count; i++) look(launch->buffers[i].buffer);
  tolk_status status = next->program_launch(stream, kernel, launch);
  auto k = kernels_.find(kernel);
  if (status != TOLK_OK || k == kernels_.end()) return status;
  Payload p = call();
  p.number(number(streams_, stream)).number(k->second.number);
  r_->write(Kind::Launch, put_launch(p, *launch));
  StreamRef s = progress(stream);
  const uint64_t position = s ? ++s->submitted : 0;
  for (uint32_t i = 0; i < launch->buffer_count; i++)
    if (i >= k->second.params.size() || (k->second.params[i].access & TOLK_ACCESS_WRITE))
      wrote(launch->buffers[i].buffer, s, position);
  if (launch->device_ns) complete(s, position);
  return status;
}

tolk_status RecordLayer::graph_create(tolk_device* const* devices, uint32_t count, uint32_t flags,
                                      tolk_graph** out) {
  auto lock = hold();
  tolk_status status = next->graph_create(devices, count, flags, out);
  if (status != TOLK_OK || !*out) return status;
  GraphState state{r_->object(), count, {}};
  Payload p = call();
  p.number(state.number).number(flags).number(count);
  for (uint32_t i = 0; i < count; i++) p.number(number(devices_, devices[i]));
  r_->write(Kind::GraphCreate, p);
  graphs_.insert_or_assign(*out, std::move(state));
  return status;
}

tolk_status RecordLayer::graph_add_kernel(tolk_graph* graph, uint32_t device, tolk_kernel* kernel,
                                          const tolk_launch* launch, const uint32_t* after,
                                          uint32_t after_count) {
  auto lock = hold();
  tolk_status status = next->graph_add_kernel(graph, device, kernel, launch, after, after_count);
  auto g = graphs_.find(graph);
  auto k = kernels_.find(kernel);
  if (status != TOLK_OK || g == graphs_.end() || k == kernels_.end()) return status;
  Payload p = call();
  p.number(g->second.number).number(device).number(k->second.number);
  put_list(p, after, after_count);
  r_->write(Kind::GraphKernel, put_launch(p, *launch));
  g->second.nodes.push_back(
      {{launch->buffers, launch->buffers + launch->buffer_count}, k->second.params, device});
  return status;
}

tolk_status RecordLayer::graph_add_copy(tolk_graph* graph, uint32_t device, tolk_ref dst, tolk_ref src,
                                        const uint32_t* after, uint32_t after_count) {
  auto lock = hold();
  tolk_status status = next->graph_add_copy(graph, device, dst, src, after, after_count);
  auto g = graphs_.find(graph);
  if (status != TOLK_OK || g == graphs_.end()) return status;
  Payload p = call();
  p.number(g->second.number).number(device).ref(ref(dst)).ref(ref(src));
  put_list(p, after, after_count);
  r_->write(Kind::GraphCopy, p);
  tolk_param writes{}, reads{};
  writes.access = TOLK_ACCESS_WRITE;
  reads.access = TOLK_ACCESS_READ;
  g->second.nodes.push_back({{dst, src}, {writes, reads}, device});
  return status;
}

tolk_status RecordLayer::graph_add_fill(tolk_graph* graph, uint32_t device, tolk_ref dst, uint64_t pattern,
                                        uint32_t pattern_bytes, const uint32_t* after, uint32_t after_count) {
  auto lock = hold();
  tolk_status status = next->graph_add_fill(graph, device, dst, pattern, pattern_bytes, after, after_count);
  auto g = graphs_.find(graph);
  if (status != TOLK_OK || g == graphs_.end()) return status;
  Payload p = call();
  p.number(g->second.number).number(device).ref(ref(dst)).number(pattern).number(pattern_bytes);
  put_list(p, after, after_count);
  r_->write(Kind::GraphFill, p);
  tolk_param writes{};
  writes.access = TOLK_ACCESS_WRITE;
  g->second.nodes.push_back({{dst}, {writes}, device});
  return status;
}

tolk_status RecordLayer::graph_commit(tolk_graph* graph) {
  auto lock = hold();
  tolk_status status = next->graph_commit(graph);
  if (status == TOLK_OK) r_->write(Kind::GraphCommit, call().number(number(graphs_, graph)));
  return status;
}

tolk_status RecordLayer::graph_update(tolk_graph* graph, const tolk_patch* patches, uint32_t patch_count) {
  auto lock = hold();
  tolk_status status = next->graph_update(graph, patches, patch_count);
  auto g = graphs_.find(graph);
  if (status != TOLK_OK || g == graphs_.end()) return status;
  Payload p = call();
  p.number(g->second.number).number(patch_count);
  for (uint32_t i = 0; i < patch_count; i++) {
    const tolk_patch& patch = patches[i];
    p.number(patch.node).number(patch.kind).number(patch.index);
    if (patch.kind == TOLK_PATCH_BUFFER) {
      p.ref(ref(patch.to.buffer));
      if (patch.node < g->second.nodes.size() && patch.index < g->second.nodes[patch.node].refs.size())
        g->second.nodes[patch.node].refs[patch.index] = patch.to.buffer;
    } else if (patch.kind == TOLK_PATCH_VALUE) {
      p.number(patch.to.value);
    } else {
      p.sizes(patch.to.sizes.grid).sizes(patch.to.sizes.local);
    }
  }
  r_->write(Kind::GraphUpdate, p);
  return status;
}

tolk_status RecordLayer::graph_launch(tolk_graph* graph, tolk_stream* const* streams, uint64_t* device_ns) {
  auto lock = hold();
  auto g = graphs_.find(graph);
  const uint32_t count = g == graphs_.end() ? 0 : g->second.devices;
  if (g != graphs_.end())
    for (const Node& node : g->second.nodes)
      for (const tolk_ref& r : node.refs) look(r.buffer);
  tolk_status status = next->graph_launch(graph, streams, device_ns);
  if (status != TOLK_OK || g == graphs_.end()) return status;
  Payload p = call();
  p.number(g->second.number).number(count);
  for (uint32_t i = 0; i < count; i++) p.number(number(streams_, streams[i]));
  r_->write(Kind::GraphLaunch, p);
  std::vector<uint64_t> positions(count);
  for (uint32_t i = 0; i < count; i++)
    if (StreamRef s = progress(streams[i])) positions[i] = ++s->submitted;
  for (const Node& node : g->second.nodes)
    for (size_t i = 0; i < node.refs.size(); i++)
      if (i >= node.params.size() || (node.params[i].access & TOLK_ACCESS_WRITE))
        wrote(node.refs[i].buffer, progress(streams[node.device]), positions[node.device]);
  if (device_ns)
    for (uint32_t i = 0; i < count; i++) complete(progress(streams[i]), positions[i]);
  return status;
}

void RecordLayer::graph_destroy(tolk_graph* graph) {
  auto lock = hold();
  r_->write(Kind::GraphDestroy, call().number(number(graphs_, graph)));
  graphs_.erase(graph);
  next->graph_destroy(graph);
}

} // namespace tolk::recording
