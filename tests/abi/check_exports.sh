#!/bin/sh
# check_exports.sh PLUGIN...: each shared library exports the plugin's entry point and nothing else.
bad=0
for file; do
  if [ ! -f "$file" ]; then
    echo "$file does not exist"
    bad=1
    continue
  fi
  symbols=$(nm -D --defined-only "$file" | awk '{ sub(/@.*/, "", $3); print $3 }')
  if [ "$symbols" != tolk_plugin_entry_v1 ]; then
    echo "$file exports:" $symbols
    bad=1
  fi
done
exit $bad
