// libtolk-cpu-compiler.so: all of LLVM that tolk uses, in one file, because LLVM's headers take half a minute
// to compile. The kernels are vectorised and unrolled already, so the pipeline is short: clean-up, common
// subexpressions, hoisting. Loop unrolling and both vectorisers are left out: they cost most of the time of
// LLVM's O2 and undo tiling.
#include "../compiler_api.h"

#include <memory>
#include <string>

#include <llvm-c/Disassembler.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/IndVarSimplify.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

namespace {

using LogFn = void (*)(void* context, const char* text, uint64_t size);

struct Log {
  LogFn fn;
  void* context;
  void write(llvm::StringRef text) const { fn(context, text.data(), text.size()); }
};

std::string host_features() {
  llvm::SubtargetFeatures features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    features.AddFeature(feature.first(), feature.second);
  return features.getString();
}

// Scheduling after register allocation takes up to half of code generation where a processor's model asks for it, and
// kernels run as fast without: their operations stand in the order that they should run in. LLVM has no other switch.
void leave_out_post_ra_scheduling() {
  auto& options = llvm::cl::getRegisteredOptions();
  if (auto it = options.find("disable-post-ra"); it != options.end())
    static_cast<llvm::cl::opt<bool>*>(it->second)->setValue(true);
}

// One per thread: a TargetMachine is not safe to share, and making one takes longer than compiling a small
// kernel.
std::unique_ptr<llvm::TargetMachine> make_target_machine(std::string& error) {
  static const bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetDisassembler();
    leave_out_post_ra_scheduling();
    return true;
  }();
  (void)initialized;
  std::string triple = llvm::sys::getProcessTriple();
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.UnsafeFPMath = false;
  options.MCOptions.AsmVerbose = false;
  static const std::string features = host_features();
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, llvm::sys::getHostCPUName(), features, options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

class KernelDiagnostics : public llvm::DiagnosticHandler {
public:
  explicit KernelDiagnostics(Log log) : log_(log) {}
  bool failed = false;

  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Remark || info.getSeverity() == llvm::DS_Note) return true;
    failed = failed || info.getSeverity() == llvm::DS_Error;
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    log_.write(text + "\n");
    return true;
  }

private:
  Log log_;
};

void optimize_module(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  llvm::LoopPassManager hoist;
  hoist.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(hoist), /*UseMemorySSA=*/true));
  for (llvm::Function& function : module)
    if (!function.isDeclaration()) passes.run(function, functions);
}

int32_t compile(const char* text, uint64_t size, int32_t optimize, void* context,
                void (*object)(void*, const void*, uint64_t), LogFn log_fn) {
  Log log{log_fn, context};
  thread_local std::string error;
  thread_local std::unique_ptr<llvm::TargetMachine> machine = make_target_machine(error);
  if (!machine) {
    log.write("LLVM has no code generator for this processor: " + error + "\n");
    return 1;
  }
  llvm::LLVMContext llvm_context;
  auto diagnostics = std::make_unique<KernelDiagnostics>(log);
  KernelDiagnostics* state = diagnostics.get();
  llvm_context.setDiagnosticHandler(std::move(diagnostics));

  llvm::SMDiagnostic parse_error;
  llvm::MemoryBufferRef buffer(llvm::StringRef(text, size), "kernel");
  std::unique_ptr<llvm::Module> module = llvm::parseAssembly(buffer, parse_error, llvm_context);
  if (!module) {
    std::string message;
    llvm::raw_string_ostream stream(message);
    parse_error.print("kernel", stream, /*ShowColors=*/false);
    log.write(message);
    return 1;
  }
  module->setTargetTriple(machine->getTargetTriple().str());
  module->setDataLayout(machine->createDataLayout());
  for (llvm::Function& function : *module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", machine->getTargetCPU());
    function.addFnAttr("target-features", machine->getTargetFeatureString());
  }
  std::string broken;
  llvm::raw_string_ostream broken_stream(broken);
  if (llvm::verifyModule(*module, &broken_stream)) {
    log.write(broken);
    return 1;
  }
  machine->setOptLevel(optimize ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::Less);
  optimize_module(*module, *machine);

  llvm::SmallString<16384> code;
  llvm::raw_svector_ostream code_stream(code);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, code_stream, nullptr, llvm::CodeGenFileType::ObjectFile,
                                   /*DisableVerify=*/true)) {
    log.write("LLVM cannot write objects for this processor\n");
    return 1;
  }
  codegen.run(*module);
  if (state->failed) return 1;
  object(context, code.data(), code.size());
  return 0;
}

int32_t disassemble(const uint8_t* code, uint64_t size, uint64_t address, void* context, LogFn out) {
  std::string error;
  if (!make_target_machine(error)) return 1;
  LLVMDisasmContextRef decoder = LLVMCreateDisasmCPUFeatures(
      llvm::sys::getProcessTriple().c_str(), llvm::sys::getHostCPUName().str().c_str(),
      host_features().c_str(), nullptr, 0, nullptr, nullptr);
  if (!decoder) return 1;
  std::string bytes(reinterpret_cast<const char*>(code), size);
  for (uint64_t at = 0; at < size;) {
    char line[256];
    auto* data = reinterpret_cast<uint8_t*>(bytes.data());
    size_t used = LLVMDisasmInstruction(decoder, data + at, size - at, address + at, line, sizeof line);
    std::string text = used ? std::string(line) + "\n" : "\t.byte\n";
    out(context, text.data(), text.size());
    at += used ? used : 1;
  }
  LLVMDisasmDispose(decoder);
  return 0;
}

constexpr tolk_cpu_compiler kCompiler = {TOLK_CPU_COMPILER_VERSION, 0, LLVM_VERSION_STRING, compile,
                                         disassemble};

} // namespace

extern "C" __attribute__((visibility("default"))) const tolk_cpu_compiler* tolk_cpu_compiler_v1() {
  return &kCompiler;
}
