// The flame graph's script: click zooms to a frame, search marks frames by a regular expression. No network, no library.
(function () {
  var W = 1180, M = 10, frames = [].slice.call(document.querySelectorAll('.f'));
  var info = document.getElementById('info'), found = document.getElementById('found');
  var reset = document.getElementById('reset'), search = document.getElementById('search');
  function title(g) { return g.querySelector('title').textContent; }
  function num(g, k) { return parseFloat(g.getAttribute('data-' + k)); }
  function label(g, width) {
    var name = title(g).split('\n')[0], room = Math.floor((width - 6) / 6.7);
    return room < 3 ? '' : name.length <= room ? name : name.slice(0, room - 1) + '…';
  }
  function zoom(to) {
    var x0 = to ? num(to, 'x') : 0, w0 = to ? num(to, 'w') : W, level = to ? num(to, 'l') : 0;
    frames.forEach(function (g) {
      var x = num(g, 'x'), w = num(g, 'w'), l = num(g, 'l');
      var around = l < level && x <= x0 + 1e-6 && x + w >= x0 + w0 - 1e-6, inside = l >= level && x >= x0 - 1e-3 && x + w <= x0 + w0 + 1e-3;
      g.classList.toggle('off', !(around || inside));
      g.classList.toggle('dim', around);
      if (!around && !inside) return;
      var left = around ? 0 : (x - x0) / w0 * W, width = around ? W : w / w0 * W;
      var rect = g.querySelector('rect'), text = g.querySelector('text');
      rect.setAttribute('x', M + left); rect.setAttribute('width', Math.max(0.5, width - 0.4));
      text.setAttribute('x', M + left + 3); text.textContent = label(g, width);
    });
    reset.classList.toggle('off', !to);
  }
  function mark(expression) {
    var re = null, hits = 0, time = [];
    try { re = expression ? new RegExp(expression, 'i') : null; } catch (e) { found.textContent = 'not a regular expression'; return -1; }
    frames.forEach(function (g) {
      var hit = !!re && re.test(title(g).split('\n')[0]);
      g.classList.toggle('hit', hit);
      if (hit) { hits++; time.push([num(g, 'x'), num(g, 'x') + num(g, 'w')]); }
    });
    time.sort(function (a, b) { return a[0] - b[0]; }); // frames inside of each other count once
    var sum = 0, end = 0;
    time.forEach(function (t) { if (t[1] > end) { sum += t[1] - Math.max(t[0], end); end = t[1]; } });
    found.textContent = re ? hits + ' frames, ' + (100 * sum / W).toFixed(1) + '% of the time' : '';
    return hits;
  }
  function ask() { mark(prompt('Search (a regular expression):', '') || ''); }
  frames.forEach(function (g) {
    g.addEventListener('click', function () { zoom(g); });
    g.addEventListener('mouseover', function () { info.textContent = title(g).replace('\n', ': '); });
    g.addEventListener('mouseout', function () { info.textContent = ' '; });
  });
  reset.addEventListener('click', function () { zoom(null); });
  search.addEventListener('click', ask);
  window.addEventListener('keydown', function (e) {
    if ((e.ctrlKey || e.metaKey) && e.key === 'f') { e.preventDefault(); ask(); }
    if (e.key === 'Escape') { zoom(null); mark(''); }
  });
  window.flame = { zoom: zoom, mark: mark, frames: frames };
})();
