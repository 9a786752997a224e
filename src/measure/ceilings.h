/* ceilings: what the files that measure a machine's ceilings share.
 *
 *     ceilings.c         the kernels of kernels/roofline.py, one after another, into a nereid_ceilings
 *     ceilings_blas.c    products of matrices by cuBLAS or OpenBLAS, opened at run time
 *     ceilings_file.c    kept in the cache folder, by device
 *     measure/roofline_model.c            under which ceiling a launch stands
 */
#ifndef NEREID_CEILINGS_H
#define NEREID_CEILINGS_H

#include "runtime/runtime.h"

/* The entry of nereid_devices that is this device's. */
void ceilings_identify(const nereid_device *d, char name[32], char description[256]);

/* Fills the rates of dots that a BLAS library gives, and blas. None found, or a type it does not have: left alone.
 * `enough` is the time in ns that a measurement takes at least. */
void ceilings_blas(nereid_device *d, double enough, bool quick, nereid_ceilings *out);

#endif
