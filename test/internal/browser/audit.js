// Returns the problems of the page that WCAG 2.1 AA and the policy of Quoin's pages forbid, as texts.
(() => {
  const problems = [];
  const name = (element) => element.outerHTML.slice(0, 120);

  if (document.documentElement.lang !== "en") problems.push(`the language is "${document.documentElement.lang}"`);
  if (!document.title.trim()) problems.push("the page has no title");
  if (document.querySelectorAll("h1").length !== 1) problems.push("the page does not have one h1");
  if (document.querySelectorAll("main").length !== 1) problems.push("the page does not have one main");
  if (!document.querySelector("meta[name=viewport]")) problems.push("the page has no viewport");
  if (document.scripts.length) problems.push("the page has a script");
  if (document.querySelector("style, iframe, object, embed, base")) problems.push("the page has an element that its policy forbids");
  for (const element of document.querySelectorAll("*")) {
    for (const attribute of element.attributes) {
      if (attribute.name.startsWith("on") || attribute.name === "style") problems.push(`${attribute.name} in ${name(element)}`);
    }
  }
  const width = document.documentElement.scrollWidth;
  if (width > window.innerWidth) problems.push(`the page scrolls horizontally: ${width} px in ${window.innerWidth} px`);

  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  for (const control of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (![...control.labels].some((label) => label.textContent.trim()) && !control.getAttribute("aria-label")) problems.push(`no label: ${name(control)}`);
    const described = control.getAttribute("aria-describedby");
    if (described && !document.getElementById(described)) problems.push(`its description is missing: ${name(control)}`);
  }
  for (const element of document.querySelectorAll("a, button")) {
    if (!element.textContent.trim() && !element.getAttribute("aria-label")) problems.push(`no name: ${name(element)}`);
  }

  const channels = (color) => {
    const match = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/.exec(color);
    if (!match) throw new Error(`unknown color ${color}`);
    return { rgb: match.slice(1, 4).map(Number), alpha: match[4] === undefined ? 1 : Number(match[4]) };
  };
  const luminance = ({ rgb }) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = channels(getComputedStyle(e).backgroundColor);
      if (color.alpha === 1) return color;
      if (color.alpha !== 0) throw new Error(`translucent background of ${name(e)}`);
    }
    return channels("rgb(255, 255, 255)");
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const check = (what, color, behind, least) => {
    const ratio = contrast(channels(color), behind);
    if (ratio < least) problems.push(`contrast ${ratio.toFixed(2)} < ${least}: ${what}`);
  };
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    if (!visible(element)) continue;
    const isControl = element.matches("input:not([type=hidden]), select, textarea");
    if (isControl || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim())) {
      const size = parseFloat(style.fontSize);
      const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      check(`text of ${name(element)}`, style.color, ground(element), isLarge ? 3 : 4.5);
    }
    if (isControl || element.matches("button")) check(`border of ${name(element)}`, style.borderTopColor, ground(element.parentElement), 3);
  }
  return problems;
})();
