// xterm.js makes <style> elements and style attributes, which the page's policy does not allow. Sheets and styles that a
// script sets as objects are allowed, and look the same: so what `document` makes from now on turns the one into the other.

const plain = document.createElement.bind(document);

function sheetElement() {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  const node = plain("span");
  node.hidden = true;
  Object.defineProperty(node, "textContent", { set: (text) => sheet.replaceSync(text) });
  node.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(node);
  };
  return node;
}

function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

document.createElement = (...args) => {
  if (args[0] === "style") return sheetElement();
  const node = plain(...args);
  if (args[0] === "span") node.setAttribute = setAttribute;
  return node;
};
