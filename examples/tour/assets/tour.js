// Keeps the steps up to date in place, so that the focus stays on its button.
"use strict";
(() => {
	const frame = document.querySelector("iframe");
	const narrow = matchMedia("(max-width: 50rem)");
	let latest = 0; // the number of the last request

	// show renders an answer, unless a later request has been sent.
	async function show(url, options) {
		const number = ++latest;
		let page;
		try {
			page = new DOMParser().parseFromString(await (await fetch(url, options)).text(), "text/html");
		} catch {
			document.getElementById("status").textContent = "The tour has ended";
			return;
		}
		if (number !== latest || !page.getElementById("steps")) return;
		for (const there of page.querySelectorAll("button")) {
			const here = document.getElementById(there.id);
			for (const name of ["aria-disabled", "aria-pressed"]) {
				if (here.getAttribute(name) === there.getAttribute(name)) continue;
				if (there.hasAttribute(name)) here.setAttribute(name, there.getAttribute(name));
				else here.removeAttribute(name);
			}
		}
		const frozen = page.getElementById("freeze").getAttribute("aria-pressed") === "true";
		for (const id of frozen ? ["status"] : ["status", "steps"]) {
			const here = document.getElementById(id), there = page.getElementById(id);
			if (here.innerHTML !== there.innerHTML) here.innerHTML = there.innerHTML;
		}
		frame.contentWindow.postMessage({ freeze: frozen }, location.origin);
	}

	document.addEventListener("submit", (event) => {
		event.preventDefault();
		if (event.submitter?.getAttribute("aria-disabled") === "true") return;
		show(event.target.action, { method: "POST" });
	});
	setInterval(() => show("./"), 500);

	// On a narrow screen the frame is as high as its page, so that only the whole page scrolls.
	function fit() {
		const body = frame.contentDocument?.body;
		frame.style.height = narrow.matches && body ? body.offsetHeight + "px" : "";
	}
	setInterval(fit, 500);
	narrow.addEventListener("change", fit);
})();
