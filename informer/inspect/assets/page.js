// Shows what the stream sends. Each event is the overview as the server has made it; what
// is on the page is changed into it, so that focus, scrolling and open details stay.
"use strict";
(() => {
	const shown = document.getElementById("informers");
	const live = document.getElementById("live");
	const hold = document.getElementById("hold");
	let held = false;
	let latest = "";

	function tell(text, on) {
		if (live.textContent !== text) live.textContent = text;
		live.classList.toggle("on", on);
	}

	function same(a, b) {
		return a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
			(a.nodeType !== Node.ELEMENT_NODE || a.getAttribute("data-key") === b.getAttribute("data-key"));
	}

	// become changes a node into another one that is the same but for its content.
	function become(node, wanted) {
		if (node.nodeType !== Node.ELEMENT_NODE) {
			if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
			return;
		}
		for (const { name, value } of wanted.attributes) {
			if (name === "open") continue; // the reader's
			if (node.getAttribute(name) !== value) node.setAttribute(name, value);
		}
		for (const { name } of [...node.attributes]) {
			if (name !== "open" && !wanted.hasAttribute(name)) node.removeAttribute(name);
		}
		children(node, wanted);
	}

	function children(node, wanted) {
		let next = node.firstChild;
		for (const child of [...wanted.childNodes]) {
			let match = next;
			while (match && !same(match, child)) match = match.nextSibling;
			if (!match) {
				node.insertBefore(child, next);
				continue;
			}
			while (next !== match) {
				const gone = next;
				next = next.nextSibling;
				gone.remove();
			}
			become(match, child);
			next = match.nextSibling;
		}
		while (next) {
			const gone = next;
			next = next.nextSibling;
			gone.remove();
		}
	}

	function show() {
		const parsed = new DOMParser().parseFromString("<main>" + latest + "</main>", "text/html");
		children(shown, parsed.querySelector("main"));
	}

	hold.hidden = false;
	hold.addEventListener("click", () => {
		held = !held;
		hold.setAttribute("aria-pressed", String(held));
		hold.textContent = held ? "Go on" : "Pause";
		tell(held ? "paused" : "live", !held);
		if (!held && latest) show();
	});

	const stream = new EventSource("stream");
	stream.addEventListener("message", (event) => {
		latest = event.data;
		if (held) return;
		tell("live", true);
		show();
	});
	stream.addEventListener("error", () => tell("the program does not answer", false));
})();
