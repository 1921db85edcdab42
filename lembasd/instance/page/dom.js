// Small ways to make and fill elements. What comes from outside is put in as text, never as markup.

export const byId = (id) => document.getElementById(id);

export function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  if (options.text !== undefined) node.textContent = options.text;
  if (options.class) node.className = options.class;
  node.append(...children);
  return node;
}

export function button(text, action, kind = "") {
  const node = make("button", { text, class: kind });
  node.type = "button";
  node.addEventListener("click", () => attempt(action));
  return node;
}

// Asks the instance; without a body it reads. Throws an Error with the instance's sentence.
export async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The instance does not answer; is it still running?");
  }
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error ? value.error.message : `The instance answered ${answer.status}.`);
  return value;
}

export function tell(problem) {
  byId("problem").textContent = problem;
  byId("problem").hidden = !problem;
}

// Runs an action; what goes wrong is said at the top of the page until the next one.
export async function attempt(action) {
  try {
    tell("");
    await action();
  } catch (error) {
    tell(error.message);
  }
}

export const path = (...parts) => `/api/local/${parts.map(encodeURIComponent).join("/")}`;
