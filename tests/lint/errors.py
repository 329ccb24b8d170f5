#!/usr/bin/env python3
"""Writes docs/generated/errors.md to standard output: errors.py ROOT.

The messages come from the sources (messages.py), their causes and remedies from the files in errors/. Fails when a
message has no entry there, or an entry no message; what it prints then is the entry to fill in."""

import os
import re
import sys

import messages

# heading, what it says, sources whose messages are explained by hand
EXPLAINED = [
    ("The command line and a model's values",
     "`tolk-run` itself: flags, values given to inputs, stored outputs, case folders.",
     ["tools/run/options.cpp", "tools/run/inputs.cpp", "tools/run/random_input.cpp", "tools/run/outputs.cpp",
      "tools/run/case_folder.cpp", "tools/run/check.cpp", "tools/run/main.cpp", "tools/run/run_model.cpp"]),
    ("Settings", "Environment variables; `docs/generated/env.md` lists them.", ["core/tolk/base/config.cpp"]),
    ("Devices by name", "The registry: what `DEVICE=` and `--device` name, and plugin options.",
     ["core/tolk/device/registry.cpp"]),
    ("Plugins that are not taken",
     "Discovery and loading. These are the reasons that `tolk-run --list-devices -v` prints beside a file or folder, and that "
     "the error about a missing device repeats. The dynamic loader's own text may stand there too: it names the library or "
     "symbol that is missing.",
     ["core/tolk/loader/plugin_search.cpp", "plugin_api/include/tolk/plugin/trusted_library.hpp",
      "core/tolk/loader/elf_stamp.cpp", "core/tolk/loader/plugin_loader.cpp", "core/tolk/loader/entries.cpp"]),
    ("Devices at work", "Opening a device, compiling and loading kernels, buffers, launches.",
     ["core/tolk/device/device.cpp", "core/tolk/device/program.cpp", "core/tolk/device/buffer.cpp",
      "core/tolk/device/allocator.cpp", "core/tolk/device/multi_buffer.cpp", "core/tolk/device/pools.cpp",
      "core/tolk/device/stream.cpp", "core/tolk/device/graph.cpp", "core/tolk/engine/compile/compile.cpp",
      "core/tolk/engine/run/validate_with_cpu.cpp"]),
    ("Captured functions", "`Jit` and what is below it. A call that is refused has had no effect.",
     ["core/tolk/tensor/jit.cpp", "core/tolk/engine/capture/function.cpp", "core/tolk/engine/capture/record.cpp",
      "core/tolk/engine/capture/capture.cpp", "core/tolk/engine/capture/replay.cpp",
      "core/tolk/engine/capture/capture_scope.cpp"]),
    ("Saved models and captures",
     "Files of `--save` and of saved captures. Each message begins with the file when it was given by name.",
     ["core/tolk/onnx/model_saved.cpp", "core/tolk/base/packed.cpp", "core/tolk/engine/capture/saved_capture.cpp",
      "core/tolk/engine/capture/saved_check.cpp", "core/tolk/engine/capture/saved_program.cpp"]),
    ("Layers around plugins", "`TOLK_LAYERS`, and recordings. What `validate` says about calls is in `docs/generated/layers.md`.",
     ["core/tolk/layers/layers.cpp", "core/tolk/layers/trace.cpp", "core/tolk/layers/record.cpp",
      "core/tolk/device/replay.cpp"]),
    ("The model file",
     "Reading an ONNX file. Each message begins with the file and the place in it, such as `m.onnx: graph.node[12]:`.",
     ["core/tolk/onnx/reader.cpp", "core/tolk/onnx/type_reader.cpp", "core/tolk/onnx/names.cpp",
      "core/tolk/onnx/external_data.cpp", "core/tolk/onnx/sparse_tensor.cpp"]),
    ("The model as a whole", "Importing: operators that are not there, values that do not fit the model's inputs.",
     ["core/tolk/onnx/model.cpp", "core/tolk/onnx/importer.cpp", "core/tolk/onnx/importer_registry.cpp",
      "core/tolk/onnx/graph.cpp"]),
    ("Tensor files",
     ".npy, .npz and .pb files, and the tensors inside of a model. The message begins with the file and the place.",
     ["core/tolk/io/mapped_file.cpp", "core/tolk/io/npy.cpp", "core/tolk/io/npz.cpp", "core/tolk/io/proto_reader.cpp",
      "core/tolk/io/tensor_proto.cpp", "core/tolk/io/value_proto.cpp", "core/tolk/io/host_tensor.cpp", "core/tolk/io/place.cpp",
      "core/tolk/io/value.cpp"]),
]
NAMED = {source for _, _, sources in EXPLAINED for source in sources}
# Folders where each source must be named above, or here with the reason why it has no errors of its own.
WHOLE = ["tools/run", "core/tolk/device", "core/tolk/io"]
SILENT = {
    "tools/run/option_table.cpp": "the text of --help", "tools/run/report.cpp": "what a run prints",
    "tools/run/progress.cpp": "the bar", "tools/run/replay.cpp": "what --replay prints",
    "tools/run/list_devices.cpp": "no text", "tools/run/environment.cpp": "no text",
    "core/tolk/device/report.cpp": "--list-devices", "core/tolk/device/host_backend.cpp": "a plugin's tables",
    "core/tolk/device/host_graph.cpp": "no text", "core/tolk/loader/fork_guard.cpp": "no text",
    "core/tolk/loader/plugin_host.cpp": "no text",
    "core/tolk/loader/status.cpp": "the texts of status.def", "core/tolk/device/copy.cpp": "no text",
    "core/tolk/device/context.cpp": "descriptions for logs",
    **{f"core/tolk/device/layer_validate{part}": "the rules of docs/generated/layers.md"
       for part in (".cpp", ".h", "_graph.cpp", "_memory.cpp", "_program.cpp", "_stream.cpp")},
    "core/tolk/io/compare.cpp": "results of comparisons", "core/tolk/io/summary.cpp": "summaries of values",
}
# Messages of single operators: they name the file and the node, then say what does not fit. Only listed.
LISTED = [
    ("Operators", "core/tolk/onnx", r"\w+\.cpp$"),  # but for those above
    ("Tensor operations", "core/tolk/tensor", r"\w+\.cpp$"),
    ("Shapes", "core/tolk/uop", r"(build|shape)\.cpp$"),
]
# Calls whose text is no message: logging, tests of a text, labels, invariants of the project itself.
QUIET = {"debug", "value", "TOLK_CHECK", "TOLK_DCHECK", "view", "starts_with", "ends_with", "snprintf", "print", "fputs",
         "normal_axis", "pair", "require_not_capturing", "check", "check_status", "static_assert"}
# Texts of those files that are none.
NO_MESSAGES = {"by scale"}
HERE = os.path.dirname(os.path.abspath(__file__))


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


def spoken(root, name):
    return [(m, call) for m, call in messages.messages(read(root, name)) if call not in QUIET]


def shape(message):
    """A message without the names of its placeholders; neighbours count as one."""
    return re.sub(r"(<[^<>]*>\s*)+", "<> ", message).strip()


class Entries:
    """errors/*.txt: [source] begins a source; "= message", a line with the cause, one with the remedy; "- text" for a part of
    other messages; "* cause | remedy" for all messages of the source that have no entry; "@call text {}" for what a helper
    puts around its argument. What <placeholders> are called is free: the page shows the names that stand here."""

    def __init__(self, text):
        self.rows, self.parts, self.default, self.frames, self.order = {}, {}, {}, {}, []
        source, lines = None, [l.rstrip() for l in text.split("\n")]
        i = 0
        while i < len(lines):
            line = lines[i]
            i += 1
            if not line or line.startswith("#"):
                continue
            if line.startswith("[") and line.endswith("]"):
                source = line[1:-1]
                self.rows[source], self.parts[source], self.frames[source] = {}, set(), {}
            elif line.startswith("= "):
                self.rows[source][shape(line[2:])] = (line[2:], lines[i], lines[i + 1])
                i += 2
            elif line.startswith("- "):
                self.parts[source].add(shape(line[2:]))
            elif line.startswith("* "):
                self.default[source] = tuple(line[2:].split(" | "))
            elif line.startswith("@"):
                call, frame = line[1:].split(" ", 1)
                self.frames[source][call] = frame
            else:
                sys.exit(f"tests/lint/errors: not understood: {line}")


def cell(text):
    return text.replace("|", "\\|")


def code(text):
    """A message as code in a table."""
    mark = "``" if "`" in text else "`"
    return mark + cell(text) + mark


def join(root, entries, faults):
    """The explained sections as Markdown."""
    out = []
    for heading, about, sources in EXPLAINED:
        out += [f"## {heading}", "", about, "", "| message | cause | remedy |", "|---|---|---|"]
        for source in sources:
            rows, parts = entries.rows.get(source, {}), entries.parts.get(source, set())
            used = set()
            for message, call in spoken(root, source):
                if shape(message) in parts:
                    used.add(shape(message))
                    continue
                frame = entries.frames.get(source, {}).get(call)
                full = frame.replace("{}", message) if frame else message
                if shape(full) in used:
                    continue
                used.add(shape(full))
                if shape(full) in rows:
                    full, cause, remedy = rows[shape(full)]
                elif source in entries.default:
                    cause, remedy = entries.default[source]
                else:
                    faults.append(f"[{source}]\n= {full}\n\n")
                    continue
                out.append(f"| {code(full)} | {cell(cause)} | {cell(remedy)} |")
            for stale in sorted((set(rows) | parts) - used):
                faults.append(f"[{source}] has an entry for a message that the code does not have:\n= {stale}\n")
        out.append("")
    return out


def listed(root):
    out = ["## Single operators", "",
           "These follow the file and the node: `m.onnx: graph.node[3] \"conv1\" (Conv): ...`. The cause is an attribute, a "
           "shape or a type that the operator cannot have, or a form of it that is not supported. Look at the node in the model; "
           "export again with other options or another opset. Messages of tensor operations and shapes also reach programs that "
           "use `Tensor` directly.", ""]
    for heading, folder, pattern in LISTED:
        out += [f"### {heading}", "", "| source | message |", "|---|---|"]
        for name in sorted(os.listdir(os.path.join(root, folder))):
            if re.match(pattern, name) and folder + "/" + name not in NAMED:
                found = [m for m, _ in spoken(root, folder + "/" + name) if m not in NO_MESSAGES]
                out += [f"| `{name[:-4]}` | {code(m)} |" for m in found]
        out.append("")
    return out


def tables(root):
    states = re.findall(r'TOLK_PLUGIN_STATE\(\w+, "([^"]*)", "([^"]*)"\)', read(root, "core/tolk/loader/plugin_states.def"))
    table = read(root, "plugin_api/include/tolk/plugin/status.def")
    status = re.findall(r'TOLK_STATUS\((\w+), (-?\d+), "([^"]*)"\)', table)
    doings = set()
    for name in sorted(os.listdir(os.path.join(root, "core/tolk/device"))):
        if name.endswith(".cpp"):
            found = messages.messages(read(root, "core/tolk/device/" + name))
            doings |= {m for m, call in found if call in ("check", "check_status")}
    out = ["## States of a plugin file", "", "The `state` in `--list-devices -v` and its JSON form.", "",
           "| state | meaning |", "|---|---|"]
    out += [f"| `{state}` | {meaning} |" for state, meaning in states]
    out += ["", "## What a plugin answers", "",
            "A call that a plugin refuses reads `<device>: <what was done>: <reason of the plugin> (<status>)`. Without a reason "
            "of the plugin the status's meaning stands there. What was done, besides short words such as `copy` and `fill`: "
            + ", ".join(f"`{d}`" for d in sorted(doings)) + ".", "", "| status | value | meaning |", "|---|---|---|"]
    out += [f"| `TOLK_{name}` | {value} | {meaning} |" for name, value, meaning in status]
    return out + [""]


HEAD = """# Errors

Generated by `tests/lint/errors.py` from the sources and `tests/lint/errors/`; a test fails when a message has no row, or a row
no message.

An error is one sentence on standard error after `tolk-run: `, and exit status 2. It says what was expected, what was found and,
where that helps, what to do. In a program it is an exception, a leaf of `tolk::Error` (`tolk/base/error.h`). Parts in `<angle
brackets>` are filled in; `<a|b>` is one of the two. Warnings are in the tables as well: they follow `tolk: warning: ` and change
no exit status.
"""


def main():
    root = os.path.abspath(sys.argv[1])
    files = sorted(name for name in os.listdir(HERE + "/errors") if name.endswith(".txt"))
    entries, faults = Entries("\n".join(read(HERE, "errors/" + name) for name in files)), []
    for folder in WHOLE:
        for name in sorted(os.listdir(os.path.join(root, folder))):
            source = folder + "/" + name
            if name.endswith((".cpp", ".h")) and source not in NAMED and source not in SILENT and spoken(root, source):
                faults.append(f"{source} says something and is in no section of errors.py")
    for source in entries.rows:
        if source not in NAMED:
            faults.append(f"tests/lint/errors has a section for {source}, which errors.py does not name")
    page = [HEAD] + join(root, entries, faults) + tables(root) + listed(root)
    if faults:
        print("\n".join(faults), file=sys.stderr)
        sys.exit(1)
    print("\n".join(page).rstrip("\n"))


if __name__ == "__main__":
    main()
