// The report's types, from the schema that its JSON is published with: a field that the page reads and the report
// does not have is then an error of the compiler.
import { readFileSync } from "node:fs";

const quoted = (value) => JSON.stringify(value);

function typeOf(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.const !== undefined) return quoted(schema.const);
  if (schema.enum) return schema.enum.map(quoted).join(" | ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map(typeOf).join(" | ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type })).join(" | ");
  switch (schema.type) {
    case "array":
      if (schema.prefixItems) return `[${schema.prefixItems.map(typeOf).join(", ")}]`;
      return `Array<${typeOf(schema.items ?? {})}>`;
    case "object":
      return schema.properties ? fields(schema) : "Record<string, unknown>";
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    default:
      return "unknown";
  }
}

function fields(schema) {
  const required = new Set(schema.required ?? []);
  const lines = Object.entries(schema.properties).map(
    ([name, of]) => `  ${name}${required.has(name) ? "" : "?"}: ${typeOf(of)};`,
  );
  return `{\n${lines.join("\n")}\n}`;
}

export function types(file) {
  const schema = JSON.parse(readFileSync(file, "utf8"));
  const all = [["Report", schema], ...Object.entries(schema.$defs)];
  const text = all.map(([name, of]) => `export type ${name} = ${typeOf(of)};\n`);
  return `// Written by build.mjs from docs/report.schema.json.\n${text.join("\n")}`;
}
