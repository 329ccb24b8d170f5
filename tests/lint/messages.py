"""The sentences that C++ sources can say, as texts with <placeholders> where a value is computed.

A message is the whole expression around a string literal: concatenations, fmt::format, a choice in parentheses. Works on
tokens; knows as much of C++ as the project's own style needs."""

import re

TOKEN = re.compile(r'''
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<line>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<raw>R"(?P<mark>[^(\s]*)\((?P<content>.*?)\)(?P=mark)")
  | (?P<text>"(?:[^"\\\n]|\\.)*")
  | (?P<char>'(?:[^'\\\n]|\\.)+')
  | (?P<word>[A-Za-z_]\w*)
  | (?P<number>\d[\w.']*)
  | (?P<mark2>::|->|\+=|-=|==|!=|<=|>=|&&|\|\||<<|>>|\+\+|--)
  | (?P<punct>[^\s])
''', re.X | re.S | re.M)

OPEN, CLOSE = "([{", ")]}"
# Calls that only wrap a text: the message goes on around them.
TRANSPARENT = {"format", "string"}
# At the level of an expression, these end it.
ENDS = {",", ";", "=", "return", "throw", "?", ":", "==", "!=", "&&", "||", "+=", "<", ">", "else", "case", "<<", "!"}

# What a computed part is called when its own name would not tell.
CALLED = {
    "strerror": "reason of the system", "errno_text": "reason of the system", "dlerror": "reason of the loader",
    "describe": "node", "place_text": "place", "inner_text": "place", "type_text": "type", "onnx_type_name": "type",
    "shape_text": "shape", "element_name": "type", "zip_strerror": "reason of libzip", "zip_file_strerror": "reason of libzip",
    "message_of": "reason of libzip", "near": "suggestion", "names_of": "inputs", "expected": "input", "join": "list",
    "search_text": "directories, rejected candidates, devices that exist", "domain_text": "domain", "machine_name": "processor",
    "target_name": "target", "human_bytes": "bytes", "sizes": "sizes", "take_error_text": "reason of the plugin",
    "getpid": "process", "kind": "kind", "origin_name": "origin", "origin": "origin",
    "status_name": "status", "range_text": "range", "get_option_name": "option", "comparison_text": "comparison",
}
# Calls that say nothing about their argument: it names the part.
PLAIN = {"to_string", "string", "string_view", "c_str", "get", "value", "name", "value_or", "data", "size", "count", "empty",
         "static_cast", "std", "fmt", "io", "onnx", "tolk", "this", "size_t", "int64_t", "uint64_t", "info", "front", "begin",
         "rank", "Device", "run", "onnx_name", "first", "second", "name_", "max", "min"}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'"}


def tokens(source):
    """(kind, text) pairs; adjacent literals are joined, comments and preprocessor lines dropped."""
    found = []
    for m in TOKEN.finditer(source):
        kind = m.lastgroup if m.lastgroup not in ("mark", "content") else "raw"
        if m.group("comment") or m.group("line"):
            continue
        if m.group("raw"):
            found.append(("text", m.group("content")))
            continue
        text = m.group(0)
        if m.group("text"):
            text = re.sub(r"\\x[0-9a-fA-F]+|\\(.)", lambda e: ESCAPES.get(e.group(1) or "", ""), text[1:-1])
            if found and found[-1][0] == "text":
                found[-1] = ("text", found[-1][1] + text)
                continue
            found.append(("text", text))
        else:
            found.append((kind, text))
    return found


def brackets(toks):
    """For each token: the index of the bracket that encloses it (-1: none), and for brackets the partner."""
    around, partner, stack = [], {}, []
    for i, (kind, text) in enumerate(toks):
        if kind == "punct" and text in CLOSE and stack:
            partner[stack[-1]] = i
            partner[i] = stack.pop()
        around.append(stack[-1] if stack else -1)
        if kind == "punct" and text in OPEN:
            stack.append(i)
    return around, partner


class Source:
    def __init__(self, text):
        self.toks = tokens(text)
        self.around, self.partner = brackets(self.toks)

    def ends(self, i):
        kind, text = self.toks[i]
        return kind != "text" and kind != "char" and (text in ENDS or text in "{}")

    def segment(self, i):
        """The expression at the level of token i: [begin, end)."""
        level, begin, end = self.around[i], i, i + 1
        while begin > 0 and begin - 1 != level:
            j = begin - 1
            if self.toks[j][1] in CLOSE and self.toks[j][0] == "punct" and j in self.partner and self.toks[j][1] != "}":
                begin = self.partner[j]
                continue
            if self.ends(j):
                break
            begin = j
        stop = self.partner.get(level, len(self.toks)) if level >= 0 else len(self.toks)
        while end < stop:
            if self.toks[end][0] == "punct" and self.toks[end][1] in "([" and end in self.partner:
                end = self.partner[end] + 1
                continue
            if self.ends(end):
                break
            end += 1
        return begin, end

    def expression(self, i):
        """The whole message around token i: [begin, end), and the name of the call that it is an argument of."""
        while True:
            begin, end = self.segment(i)
            level = self.around[i]
            if level < 0 or self.toks[level][1] != "(":
                return begin, end, ""
            before = self.toks[level - 1]
            choice = any(self.toks[j][1] in "?:" and self.around[j] == level and self.toks[j][0] == "punct"
                         for j in range(level + 1, self.partner[level]))
            if before[0] == "word" and before[1] not in ("return", "if", "while"):
                if before[1] in TRANSPARENT:
                    i = level - 1
                    continue
                return begin, end, before[1]
            # Parentheses of an expression.
            if before[0] == "word" and not choice:
                return begin, end, ""
            i = level

    def split(self, begin, end, mark):
        parts, start, i = [], begin, begin
        while i < end:
            kind, text = self.toks[i]
            if kind == "punct" and text in OPEN and i in self.partner:
                i = self.partner[i] + 1
                continue
            if kind != "text" and text == mark:
                parts.append((start, i))
                start = i + 1
            i += 1
        return parts + [(start, end)]

    def render(self, begin, end):
        """The expression as text with placeholders."""
        return "".join(self.part(b, e) for b, e in self.split(begin, end, "+") if b < e)

    def part(self, begin, end):
        toks = self.toks
        if end - begin == 1 and toks[begin][0] == "text":
            return toks[begin][1]
        if end - begin == 1 and toks[begin][0] == "char":
            return ESCAPES.get(toks[begin][1][2:-1], "") if toks[begin][1][1] == "\\" else toks[begin][1][1:-1]
        # name(...) as the whole part
        if [t[1] for t in toks[end - 4:end]] == [".", "c_str", "(", ")"]:
            end -= 4
        last = end - 1
        if toks[last][1] == ")" and toks[last][0] == "punct" and last in self.partner:
            first = self.partner[last]
            called = [t[1] for t in toks[begin:first]]
            if not called:
                return self.choice(first + 1, last)
            if called == ["fmt", "::", "format"]:
                return self.formatted(self.split(first + 1, last, ","))
            if called in (["std", "::", "string"], ["string"]) and first + 1 < last:
                return self.render(first + 1, last)
        return self.placeholder(begin, end)

    def choice(self, begin, end):
        condition = self.split(begin, end, "?")
        if len(condition) == 1:
            return self.render(begin, end)
        # a ? b : c ? d : e reads as b, d, e
        branches = []
        for b, e in condition[1:]:
            branches += [self.render(x, y) for x, y in self.split(b, e, ":")]
        nested = len(condition) - 2
        if nested:
            branches = [b for k, b in enumerate(branches) if k in (0, len(branches) - 1) or k % 2 == 0]
        return "<" + "|".join(b.replace("<", "").replace(">", "") or "nothing" for b in branches) + ">"

    def formatted(self, arguments):
        form = self.render(*arguments[0])
        values, taken = arguments[1:], []

        def fill(m):
            if m.group(0) in ("{{", "}}"):
                return m.group(0)[0]
            number = re.match(r"\{(\d+)", m.group(0))
            index = int(number.group(1)) if number else len(taken)
            taken.append(index)
            return self.argument(*values[index]) if index < len(values) else "<value>"
        return re.sub(r"\{\{|\}\}|\{[^{}]*\}", fill, form)

    def argument(self, begin, end):
        if len(self.split(begin, end, "?")) > 1:
            return self.choice(begin, end)
        return self.render(begin, end)

    def placeholder(self, begin, end):
        words, i = [], begin
        while i < end:
            kind, text = self.toks[i]
            if text == "[" and kind == "punct" and i in self.partner:
                i = self.partner[i]
            elif kind == "word":
                before = self.toks[i - 1][1] if i > begin else ""
                if text == "what" and before == ".":
                    return "<reason>"
                if text == "message" and before == ".":
                    return "<reason of the system>"
                if text in CALLED and i + 1 < end and self.toks[i + 1][1] == "(":
                    return "<" + CALLED[text] + ">"
                words.append(text)
            i += 1
        telling = [w for w in words if w not in PLAIN] or words[-1:] or ["value"]
        name = telling[-1]
        return "<" + re.sub(r"^k(?=[A-Z])", "", name).strip("_").replace("_", " ") + ">"


# Two words with a space between them: a sentence, not a name or a pattern.
SENTENCE = re.compile(r"[A-Za-z'\")}\]>,:;-]+ [\"'(<{A-Za-z]")


def messages(text):
    """Pairs (message, call that takes it) in the order of the source, without repetitions."""
    source, seen, covered = Source(text), [], set()
    for i, (kind, literal) in enumerate(source.toks):
        if kind != "text" or i in covered or not SENTENCE.search(literal):
            continue
        begin, end, call = source.expression(i)
        covered.update(range(begin, end))
        message = re.sub(r"\s*\n\s*", " ", source.render(begin, end)).strip()
        if (message, call) not in seen:
            seen.append((message, call))
    return seen
