// Writes a value (see json.js) as YAML, in the style of kubectl.

// Text that no reader of YAML takes for a number, a date, a boolean or null.
const SAFE = /^[A-Za-z0-9\/][A-Za-z0-9_.\/@+=-]*(?:[ :][A-Za-z0-9_.\/@+=-]+)*$/;
const NUMBER =
  /^(?:[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|0[xob][0-9a-fA-F_]+|[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?|[0-9]{4}-[0-9]{1,2}-[0-9].*)$/;
const WORDS = /^(?:y|n|yes|no|on|off|true|false|null|nan|inf)$/i;
// Breaks of lines for YAML, and what is not seen; written as \u escapes.
const HIDDEN = /[\u007f-\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const BLOCK =
  /^[^\u0000-\u0009\u000b-\u001f\u007f-\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*$/;

export function writeYaml(value) {
  return lines(value, "").join("\n") + "\n";
}

function lines(value, indent) {
  if (value.type === "object" && value.members.length > 0) {
    return value.members.flatMap(([name, member]) => memberLines(name, member, indent));
  }
  if (value.type === "list" && value.items.length > 0) {
    return value.items.flatMap((item) => itemLines(item, indent));
  }
  return [indent + scalar(value)];
}

function memberLines(name, member, indent) {
  const head = `${indent}${quoted(name)}:`;
  if (isBlock(member))
    return [`${head} ${blockMark(member.text)}`, ...blockLines(member.text, indent + "  ")];
  if (member.type === "object" && member.members.length > 0) return [head, ...lines(member, indent + "  ")];
  if (member.type === "list" && member.items.length > 0) return [head, ...lines(member, indent)];
  return [`${head} ${scalar(member)}`];
}

function itemLines(item, indent) {
  if (isBlock(item)) return [`${indent}- ${blockMark(item.text)}`, ...blockLines(item.text, indent + "  ")];
  const inner = lines(item, indent + "  ");
  return [`${indent}- ${inner[0].slice(indent.length + 2)}`, ...inner.slice(1)];
}

// Several lines are written as a block, unless white space would be lost or hidden.
function isBlock({ type, text }) {
  return (
    type === "text" &&
    text.includes("\n") &&
    BLOCK.test(text) &&
    !/^[ \n]|[ \t]\n|[ \t]$/.test(text) &&
    text.trim() !== ""
  );
}

function blockMark(text) {
  if (!text.endsWith("\n")) return "|-";
  return text.endsWith("\n\n") ? "|+" : "|";
}

function blockLines(text, indent) {
  const body = text.endsWith("\n") ? text.slice(0, -1) : text;
  return body.split("\n").map((line) => (line === "" ? "" : indent + line));
}

function scalar(value) {
  if (value.type === "object") return "{}";
  if (value.type === "list") return "[]";
  return value.type === "plain" ? value.text : quoted(value.text);
}

function quoted(text) {
  return SAFE.test(text) && !WORDS.test(text) && !NUMBER.test(text) ? text : quote(text);
}

function quote(text) {
  return JSON.stringify(text).replace(
    HIDDEN,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
